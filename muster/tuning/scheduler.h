// Who goes on, who stops, who is next. A scheduler is pure: each answer is a function of (problem, options, history),
// with a reason in words; it acts on nothing. As with searchers, what it keeps never changes an answer.
//
// The one who acts asks in a loop, for each free slot:
//   next()          -> kNew: ask the searcher, add the trial with `group`, run it
//                      kRun: run the waiting or paused trial `number` (from its own checkpoint, or its lineage's)
//                      kEnd: a paused trial is not needed any more: history.stop(number, reason); then ask again
//                      kWait: nothing to do until another trial reports;   kDone: the study is over
// and after each report that is in the history:
//   after_report()  -> kContinue, kPause (history.pause, slot is free), kStop (history.stop, slot is free),
//                      kExploit: history.stop(number, reason), then add a waiting trial with exploit's values, lineage
//                      and the same group; the slot is free and next() names who runs in it.
// A trial whose report reaches max_resource is finished by the job's own end, whatever after_report says; a trial may
// be begun by kRun in another slot, process or host than before. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/tuning/space.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

struct ScheduleProblem {
  Space space = {};                             // population-based training changes values inside of it
  std::vector<Goal> goals = {Goal::kMinimise};  // the first one decides
  std::uint64_t seed = 0;
  std::uint64_t max_resource = 1;  // what a trial gets at most (epochs)
  // How many may be begun, those that go on from others not counted; 0: no limit (the one who acts ends the study).
  std::uint64_t trials = 0;
};

enum class Action { kContinue, kPause, kStop, kExploit };

struct Exploit {
  Lineage from;
  Assignment values;  // perturbed
};

struct Decision {
  Action action = Action::kContinue;
  std::string reason = {};
  std::optional<Exploit> exploit = {};  // with kExploit
};

enum class Turn { kNew, kRun, kEnd, kWait, kDone };

struct Next {
  Turn turn = Turn::kWait;
  std::uint64_t number = 0;  // of kRun and kEnd
  std::uint64_t group = 0;   // of kNew
  std::string reason = {};
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // `number` has just reported (its last report is the news). REQUIRES: it runs.
  virtual Decision after_report(const History& history, std::uint64_t number) = 0;
  virtual Next next(const History& history) = 0;
  // The next resource beyond the trial's own at which after_report can say anything but kContinue (max_resource at
  // most): there it needs a checkpoint, and before it need not be asked.
  virtual std::uint64_t next_decision(const Trial& trial) const = 0;
  // Whether trials go on from others with other values (kExploit): then all keys must be able to change on the way.
  virtual bool changes_values() const { return false; }
};

}  // namespace muster::tuning
