// What makes a struct of options a strategy, for those who write one: its source includes this and says
//
//   template StrategyChoice::StrategyChoice(LocalSgd);
//
// so that programs, which only choose, need none of it (strategy_choice.h).
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/strategies/strategy.h"
#include "muster/strategies/strategy_choice.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::strategies {

template <typename Options>
concept StrategyKind = std::copyable<Options> && std::default_initializable<Options> &&
    requires(Options options, const Options& chosen, Section& parallel, StrategyOptions needs) {
  { Options::kName } -> std::convertible_to<std::string_view>;
  { chosen.traits() } -> std::same_as<Traits>;
  // Its keys of [parallel], which no other strategy has, bound to `options`.
  {options.add_keys(parallel)};
  { chosen.memory(StateFigures{}) } -> std::same_as<StateMemory>;
  // Throws Error{kInvalidInput} for options out of their range, kResource.
  { chosen.make(std::move(needs)) } -> std::same_as<std::unique_ptr<Strategy>>;
};

struct StrategyChoice::AnyKind {
  virtual ~AnyKind() = default;
  virtual std::unique_ptr<AnyKind> clone() const = 0;
  virtual std::unique_ptr<AnyKind> with_defaults() const = 0;
  virtual std::string_view name() const = 0;
  virtual Traits traits() const = 0;
  virtual void add_keys(Section& parallel) = 0;
  virtual std::vector<std::string> free_keys() const = 0;
  virtual void check(const JobFacts& job) const = 0;
  virtual std::vector<Doubt> doubts(std::uint64_t steps) const = 0;
  virtual ServerProcesses server_processes() const = 0;
  virtual StateMemory memory(const StateFigures& figures) const = 0;
  virtual std::vector<std::pair<std::string, std::string>> more() const = 0;
  virtual std::unique_ptr<Strategy> make(StrategyOptions needs) const = 0;
};

template <typename Options>
struct StrategyChoice::Kind final : AnyKind {
  static_assert(StrategyKind<Options>);

  explicit Kind(Options given) : options(std::move(given)) {}

  std::unique_ptr<AnyKind> clone() const override { return std::make_unique<Kind>(options); }
  std::unique_ptr<AnyKind> with_defaults() const override { return std::make_unique<Kind>(Options()); }
  std::string_view name() const override { return Options::kName; }
  Traits traits() const override { return options.traits(); }
  void add_keys(Section& parallel) override { options.add_keys(parallel); }
  std::vector<std::string> free_keys() const override {
    if constexpr (requires { options.free_keys(); }) return options.free_keys();
    return {};
  }
  void check(const JobFacts& job) const override {
    if constexpr (requires { options.check(job); }) options.check(job);
  }
  std::vector<Doubt> doubts(std::uint64_t steps) const override {
    if constexpr (requires { options.doubts(steps); }) return options.doubts(steps);
    return {};
  }
  ServerProcesses server_processes() const override {
    if constexpr (requires { options.server_processes(); }) return options.server_processes();
    return {};
  }
  StateMemory memory(const StateFigures& figures) const override { return options.memory(figures); }
  // What decides the result and is no key.
  std::vector<std::pair<std::string, std::string>> more() const override {
    if constexpr (requires { options.more(); }) return options.more();
    return {};
  }
  std::unique_ptr<Strategy> make(StrategyOptions needs) const override { return options.make(std::move(needs)); }

  Options options;
};

template <typename Options>
requires ChoosableStrategy<Options> StrategyChoice::StrategyChoice(Options options)
    : kind_(std::make_unique<Kind<Options>>(std::move(options))) {
}

template <typename Options>
Options* StrategyChoice::get() {
  auto* const kind = dynamic_cast<Kind<Options>*>(kind_.get());
  return kind == nullptr ? nullptr : &kind->options;
}

}  // namespace muster::strategies
