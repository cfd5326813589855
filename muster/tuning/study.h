// muster::Study: a search in a program's own loop, without a server. No LibTorch is needed.
//
//   muster::Study study("branin.study", {.space = {{Parameter::uniform("x", -5, 10), Parameter::uniform("y", 0, 15)}},
//                                        .budget = {.trials = 100}});
//   while (auto trial = study.ask())
//     study.tell(*trial, branin(trial->real("x"), trial->real("y")));
//   std::cout << study.best()->values.text();
//
// The file survives kill -9: a trial that was asked for and not told is given out again, and told ones are never lost,
// not in a power cut either.
// Any number of processes may use one file at once. Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tuning/study_plan.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

// A trial to run.
struct Suggestion {
  std::uint64_t number = 0;
  Assignment values{};
  std::uint64_t resource = 0;        // how far it has come already: go on from there, if you kept its state
  std::optional<Lineage> lineage{};  // begin from that trial's state (population-based training)

  // The value of a key. Throws kNotFound if it is not in this trial (its condition does not hold, or there is no such
  // key), kMismatch for another type. real() takes integers, too.
  double real(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  bool flag(std::string_view name) const;
  bool has(std::string_view name) const { return values.find(name) != nullptr; }
};

class Study {
 public:
  // Begins the study, or goes on with the one in the file; then `plan` has to be what it was begun with (the budget may
  // change). Throws kMismatch, kInvalidInput (a plan that cannot be searched), and what the store throws.
  Study(const std::filesystem::path& file, const StudyPlan& plan);
  // Goes on with the one in the file. Throws kNotFound if there is none.
  explicit Study(const std::filesystem::path& file);
  Study(Study&&) noexcept;
  Study& operator=(Study&&) noexcept;
  ~Study();

  // The next trial: a new one, or one that goes on. Empty: the study is over (budget, nothing left to try). Where all
  // depends on trials that others run it waits for them, `patience` at most; then it throws kTimeout.
  std::optional<Suggestion> ask(std::chrono::nanoseconds patience = std::chrono::minutes(10));
  // For people: the trial is kept for who asked until it is told; no process stands behind it.
  std::optional<Suggestion> ask_for_person(std::chrono::nanoseconds patience = {});

  // An objective value (one for each objective) of a trial in the making, at a growing resource (epochs, ...). False:
  // it is not worth going on; the trial has been ended or paused, and is not told any more.
  bool report(const Suggestion& trial, std::uint64_t resource, double value);
  bool report(const Suggestion& trial, std::uint64_t resource, const std::vector<double>& values);

  // The trial has ended with this value; durable when it returns. One that is not finite counts as failed. Throws
  // kMismatch if the trial is not this process's any more, or has been told.
  void tell(const Suggestion& trial, double value);
  void tell(const Suggestion& trial, const std::vector<double>& values);
  void tell_failed(const Suggestion& trial, const std::string& reason);
  // Gives the trial back: somebody else will run it.
  void release(const Suggestion& trial);

  // The best trial that has ended. Throws kInvalidInput for a study of two objectives: these have a front.
  std::optional<Trial> best() const;
  // Those that have ended and that no other one beats in one objective without being worse in the other; by growing
  // first objective.
  std::vector<Trial> front() const;
  // All of them, in the order in which they were proposed.
  std::vector<Trial> trials() const;
  StudyPlan plan() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace muster::tuning

namespace muster {
using tuning::Study;
using tuning::StudyPlan;
}  // namespace muster
