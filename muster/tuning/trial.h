// A trial, and all trials of a study in the order in which things happened: all that searchers and schedulers know.
//
// A History is an append-only log: trials are added with numbers 0, 1, 2, ...; then each reports objective values at
// growing resources (epochs, by default) and ends. Whoever replays the same calls in the same order gets the same
// proposals and decisions. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/tuning/value.h"

namespace muster::tuning {

enum class Goal { kMinimise, kMaximise };

enum class State {
  kWaiting,   // added, not yet begun (or to be begun again after it was lost)
  kRunning,   //
  kPaused,    // has a checkpoint at its last report, and may go on from it
  kFinished,  // to its end: has final values
  kStopped,   // ended early by a scheduler: its last report counts
  kFailed,    // died too often, or its objective was not finite
};
std::string_view to_string(State state);
// Throws Error{kDamaged} with `where`.
State state_from_text(std::string_view text, const std::string& where);
constexpr bool ended(State state) {
  return state >= State::kFinished;
}

struct Report {
  std::uint64_t resource = 0;
  std::vector<double> values;  // one an objective
  bool operator==(const Report&) const = default;
};

// Where a trial's weights come from, if not from its own beginning.
struct Lineage {
  std::uint64_t parent = 0;    // trial
  std::uint64_t resource = 0;  // at which it was copied: the child's first report is beyond it
  bool operator==(const Lineage&) const = default;
};

struct Trial {
  std::uint64_t number = 0;
  Assignment values = {};
  State state = State::kWaiting;
  std::vector<Report> reports = {};  // by growing resource
  std::vector<double> result = {};   // one an objective; empty unless finished
  std::string reason = {};           // why it was proposed, then why it is in its state
  std::optional<Lineage> lineage = {};
  std::uint64_t group = 0;  // the scheduler's own: bracket of Hyperband, member of a population

  // How far its weights have come: its last report, else where its lineage left off, else 0.
  std::uint64_t resource() const;
  // What it is judged by: the result, else (stopped, paused, running) the last report. Empty: nothing known, or failed.
  const std::vector<double>* outcome() const;
  // The report at the largest resource that is not beyond `resource`; null if there is none.
  const Report* report_at(std::uint64_t resource) const;

  bool operator==(const Trial&) const = default;
};

class History {
 public:
  // REQUIRES (all of these; broken ones are a MUSTER_CHECK): `trial.number` is size(); numbers exist; a trial that has
  // ended changes no more; reports of a trial have growing resources; values are as many as there are objectives.
  void add(Trial trial);
  void run(std::uint64_t number);  // waiting, paused -> running
  // A running trial is lost: it will be begun again from its last report that has a checkpoint, at `resource`; reports
  // beyond are forgotten. (If it had none: 0.)
  void lose(std::uint64_t number, std::uint64_t resource);
  void report(std::uint64_t number, Report report);
  void pause(std::uint64_t number, std::string reason);
  void finish(std::uint64_t number, std::vector<double> result);
  void stop(std::uint64_t number, std::string reason);
  void fail(std::uint64_t number, std::string reason);
  // Takes back the last one of these calls, before which its trial was as `before` says; empty: it was not there.
  void take_back(const std::optional<Trial>& before);

  const std::vector<Trial>& trials() const { return trials_; }
  std::uint64_t size() const { return trials_.size(); }
  const Trial& at(std::uint64_t number) const;
  // Numbers of the trials that have ended, in the order in which they did.
  const std::vector<std::uint64_t>& ended() const { return ended_; }
  // Trials that were begun for themselves: those that go on from another one (Trial::lineage) are not counted.
  std::uint64_t originals() const { return originals_; }
  // The place of trial `number`, which is not in here yet, among these.
  std::uint64_t place_of_next(std::uint64_t number) const { return number - (size() - originals_); }
  // Numbers of the trials that are waiting, and that run, in their order.
  const std::set<std::uint64_t>& waiting() const { return waiting_; }
  const std::set<std::uint64_t>& running() const { return running_; }
  // Grows with each call above.
  std::uint64_t events() const { return digests_.size(); }
  // A hash of the first `events` calls. Who keeps something of an earlier call may go on from it exactly if the digest
  // is the same: so what is kept can save time but never change an answer.
  std::uint64_t digest(std::uint64_t events) const { return events == 0 ? 0 : digests_[events - 1]; }
  // Which trial event i was about.
  std::uint64_t subject(std::uint64_t event) const { return subjects_[event]; }

 private:
  Trial& change(std::uint64_t number);
  void enter(Trial& trial, State state);
  void record(std::uint64_t number, std::string_view what, const std::vector<double>& values);

  std::vector<Trial> trials_;
  std::uint64_t originals_ = 0;
  std::vector<std::uint64_t> ended_;
  std::set<std::uint64_t> waiting_;
  std::set<std::uint64_t> running_;
  std::vector<std::uint64_t> digests_;
  std::vector<std::uint64_t> subjects_;
};

// `value` as something to minimise.
inline double loss(double value, Goal goal) {
  return goal == Goal::kMinimise ? value : -value;
}

// The ended trial with the best outcome for one objective (the first of equals); empty if there is none.
std::optional<std::uint64_t> best_trial(const History& history, std::size_t objective, Goal goal);

}  // namespace muster::tuning
