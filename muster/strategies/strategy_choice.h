// A strategy as a value: which one, with its options.
//
//   options.strategy = LocalSgd{.period = 16};
//
// The options of a strategy are a plain struct (local_sgd/local_sgd.h is a small one; strategy_kind.h says with which
// members). It is bound to the job file, handed through the session and given to the strategy: there is one of each
// knob.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {
class Section;  // base/config.h
}

namespace muster::strategies {

class Strategy;  // strategy.h
struct StrategyOptions;
struct Doubt;  // strategy_traits.h
struct JobFacts;
struct ServerProcesses;
struct StateFigures;
struct StateMemory;
struct Traits;

// Who computes which lane. The result is the same.
enum class Claims {
  kStatic,   // worker r of n: lanes r, r + n, ...
  kDynamic,  // its own as before, then any that nobody has begun: a slow worker computes fewer
};

// By its name; whether the rest is there is checked where the strategy is (strategy_kind.h).
template <typename Options>
concept ChoosableStrategy = requires {
  { Options::kName } -> std::convertible_to<std::string_view>;
};

class StrategyChoice {
 public:
  template <typename Options>
  requires ChoosableStrategy<Options> StrategyChoice(Options options);
  StrategyChoice(const StrategyChoice& other);
  StrategyChoice(StrategyChoice&&) noexcept;
  StrategyChoice& operator=(StrategyChoice other) noexcept;
  ~StrategyChoice();

  std::string name() const;
  // Whether it is the same strategy, with whatever options.
  bool is_kind_of(const StrategyChoice& other) const { return name() == other.name(); }
  // The same strategy with the options that its struct is initialised with.
  StrategyChoice with_defaults() const;
  Traits traits() const;
  void add_keys(Section& parallel);
  std::vector<std::string> keys() const;
  std::vector<std::string> free_keys() const;
  void check(const JobFacts& job) const;
  std::vector<Doubt> doubts(std::uint64_t steps) const;
  ServerProcesses server_processes() const;
  StateMemory memory(const StateFigures& figures) const;
  // All options as names and values: equal for equal results.
  std::vector<std::pair<std::string, std::string>> describe() const;
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;

  // Null if it is another strategy.
  template <typename Options>
  Options* get();
  template <typename Options>
  const Options* get() const {
    return const_cast<StrategyChoice*>(this)->get<Options>();
  }

 private:
  struct AnyKind;
  template <typename Options>
  struct Kind;

  explicit StrategyChoice(std::unique_ptr<AnyKind> kind);

  std::unique_ptr<AnyKind> kind_;
};

// What a program trains with that chooses none: the first one of the registry, with the options that its struct is
// initialised with. A job file may begin with others (registry.cpp says which and why).
StrategyChoice default_strategy();

}  // namespace muster::strategies
