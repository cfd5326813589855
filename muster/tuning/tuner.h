// The one who acts: asks searcher and scheduler, has trials run, writes everything down, until the study is over.
//
// Several tuners may work on one study, in processes of their own; what others do is read from the log. A round is:
// read, take in what the trials told, fill the free slots, commit all of it at once, and only then act. If another
// process was first the round is done again with the same news. So nothing runs that is not on disk.
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/tuning/budget.h"
#include "muster/tuning/study_log.h"
#include "muster/tuning/trial_executor.h"

namespace muster::tuning {

// What somebody who watches is told. Default: nothing.
class TunerObserver {
 public:
  virtual ~TunerObserver() = default;
  virtual void begun(const Trial& /*trial*/) {}
  virtual void reported(const Trial& /*trial*/) {}
  // It was paused, or has ended; its state and reason say what.
  virtual void rested(const Trial& /*trial*/) {}
  // A trial died and is begun again.
  virtual void lost(const Trial& /*trial*/, const std::string& /*reason*/) {}
  // The study's store cannot be used just now; trials go on meanwhile. Told once each time.
  virtual void waits(const std::string& /*reason*/) {}
  // Now and then; the time is for who redraws a table.
  virtual void looked(const StudyLog& /*log*/, const Spent& /*spent*/) {}
};

struct TunerOptions {
  std::size_t slots = 1;  // trials at once
  // Trials that are proposed before there is a slot for them, so that a slot never waits for a disk. For trials of
  // milliseconds; a searcher then knows less when it proposes.
  std::size_t ahead = 0;
  std::chrono::nanoseconds patience = std::chrono::minutes(10);  // with a store that somebody else holds
  std::function<bool()> stop_requested = [] { return false; };
  const Clock* clock = &system_clock();
};

struct TunerResult {
  bool interrupted = false;
  std::string reason{};  // why it ended
};

class Tuner {
 public:
  // All must outlive it. Throws as Choice::make.
  Tuner(StudyLog& log, TrialExecutor& executor, TunerObserver& observer, TunerOptions options);

  // Until the study is over or somebody asks for a stop; trials that run are stopped then and can be resumed. Throws
  // what the store and the executor throw.
  TunerResult run();

  Spent spent();

 private:
  struct Start {
    std::uint64_t number = 0;
    std::uint64_t until = 0;
  };
  struct Round;

  bool play_round();
  bool decide_round(Round& round);
  void wait_for_store(const Error& error);
  void take_in(const TrialNews& news, Round& round);
  void take_report(const TrialNews& news, Round& round);
  void take_death(const TrialNews& news, Round& round);
  void decide(std::uint64_t number, const TrialNews& news, Round& round);
  void add_time(StudyEvent& event, const TrialNews& news) const;
  void free_orphans(Round& round);
  void fill_slots(Round& round);
  bool fill_one(Round& round);
  void add_new(const Next& next, Round& round);
  void run_trial(std::uint64_t number, Round& round);
  void act(const Round& round);
  void keep_best(const std::vector<std::uint64_t>& ended);
  void link_best();
  void read_others();
  void finish();
  bool is_mine(std::uint64_t number) const;
  std::uint64_t until_of(const Trial& trial) const;
  std::size_t running() const { return running_.size(); }
  StudyEvent event_of(EventKind kind, std::uint64_t number) const;
  void beat();

  StudyLog& log_;
  TrialExecutor& executor_;
  TunerObserver& observer_;
  const TunerOptions options_;
  const std::string member_;
  std::unique_ptr<Searcher> searcher_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<std::uint64_t, std::uint64_t> running_;  // of this process -> until
  std::map<std::uint64_t, TrialNews> carried_;      // time of trials that were let go on, since they were begun
  std::vector<TrialNews> news_;                     // not yet on disk
  std::set<std::uint64_t> unwanted_;                // of running_: they were told to stop
  std::optional<std::uint64_t> best_;
  std::optional<std::uint64_t> linked_;  // that the executor was told of as the best
  std::string over_;                     // why no trial is begun any more; empty: they are
  bool stopping_ = false;
  bool interrupted_ = false;
  double others_seconds_ = 0;                 // that they have worked
  std::optional<Clock::Instant> held_since_;  // that the store cannot be used
  Clock::Instant begun_at_;
  Clock::Instant beaten_at_;
  Clock::Instant looked_at_;
  Clock::Instant orphans_at_;
};

}  // namespace muster::tuning
