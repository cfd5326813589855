// A searcher or a scheduler as a value: which one, with its options.
//
//   SearcherChoice search = Tpe{.startup = 20};
//   auto searcher = search.make(problem);
//
// The options are a plain struct beside the implementation, with a name, one sentence of help, keys of the study file
// bound to its members, and make(). Nobody else compares names or lists keys. Thread safety: values.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/config.h"
#include "muster/tuning/given_points.h"
#include "muster/tuning/scheduler.h"
#include "muster/tuning/searcher.h"

namespace muster::tuning {

// The name is asked for first: a Choice has none, and whether it can be copied must not be asked while it is made.
template <typename Options>
concept Named = requires {
  { Options::kName } -> std::convertible_to<std::string_view>;
  { Options::kHelp } -> std::convertible_to<std::string_view>;
};

template <typename Options, typename Problem, typename Made>
concept Choosable = Named<Options> && std::copyable<Options> &&
    requires(Options options, const Options& chosen, Section& section, const Problem& problem) {
  options.add_keys(section);
  { chosen.make(problem) } -> std::convertible_to<std::unique_ptr<Made>>;
};

template <typename Problem, typename Made>
class Choice {
 public:
  template <Choosable<Problem, Made> Options>
  Choice(Options options) : kind_(std::make_unique<Kind<Options>>(std::move(options))) {}
  Choice(const Choice& other) : kind_(other.kind_->clone()) {}
  Choice(Choice&&) noexcept = default;
  Choice& operator=(Choice other) noexcept {
    kind_ = std::move(other.kind_);
    return *this;
  }

  std::string name() const { return std::string(kind_->name()); }
  // What it is and when to use it, in a sentence.
  std::string help() const { return std::string(kind_->help()); }
  // Its keys of the study file ([search] or [schedule]), bound to this value, which must outlive the section.
  void add_keys(Section& section) { kind_->add_keys(section); }
  // Throws Error{kInvalidInput} for options or a problem that it cannot work with, with the remedy.
  std::unique_ptr<Made> make(const Problem& problem) const {
    if constexpr (std::same_as<Made, Searcher>) {
      return given_points_first(problem, kind_->make(problem));
    } else {
      return kind_->make(problem);
    }
  }

 private:
  struct AnyKind {
    virtual ~AnyKind() = default;
    virtual std::unique_ptr<AnyKind> clone() const = 0;
    virtual std::string_view name() const = 0;
    virtual std::string_view help() const = 0;
    virtual void add_keys(Section& section) = 0;
    virtual std::unique_ptr<Made> make(const Problem& problem) const = 0;
  };

  template <typename Options>
  struct Kind final : AnyKind {
    explicit Kind(Options given) : options(std::move(given)) {}
    std::unique_ptr<AnyKind> clone() const override { return std::make_unique<Kind>(options); }
    std::string_view name() const override { return Options::kName; }
    std::string_view help() const override { return Options::kHelp; }
    void add_keys(Section& section) override { options.add_keys(section); }
    std::unique_ptr<Made> make(const Problem& problem) const override { return options.make(problem); }
    Options options;
  };

  std::unique_ptr<AnyKind> kind_;
};

using SearcherChoice = Choice<SearchProblem, Searcher>;
using SchedulerChoice = Choice<ScheduleProblem, Scheduler>;

}  // namespace muster::tuning
