// A study on disk: its plan and the log of all that happened, in a Store; and what it comes to, in memory.
//
//   plan              the StudyPlan, without its results of earlier studies
//   known/00000000    these results, some hundreds in each, as a JSON array
//   log/00000042      the events of one commit, as a JSON array; numbered without gaps
//   members/ID        who works on the study: process, host and a count that grows while it lives
//   spent/ID          seconds that this member has worked
//
// Any number of processes may have a study open. One that wants to change something reads what others did, decides,
// stages events and commits: the commit is refused if somebody else was first, and then the decision is made anew.
// So every event follows from all those before it, and a member that was taken for lost (its trials are begun again by
// others) can never report late: it reads that they are not its own any more. That is the fencing.
//
// Who is lost: a process of this machine that is gone, at once; one of another machine whose record has not changed for
// the lease, by this process's own clock. No clocks are compared. Thread safety: one thread at a time; beat() from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/store.h"
#include "muster/control/write_ahead.h"
#include "muster/tuning/budget.h"
#include "muster/tuning/study_event.h"
#include "muster/tuning/study_plan.h"

namespace muster::tuning {

struct StudyLogOptions {
  std::chrono::nanoseconds lease = std::chrono::seconds(30);  // of members on other machines
  const Clock* clock = &system_clock();
};

// Of a trial that a person asked for (muster tune ask): no process stands behind it, so it is never taken for lost.
inline constexpr const char* kPerson = "person";

class StudyLog {
 public:
  // Puts `plan` into the store if there is no study in it; else the study there is opened, if it can go on with `plan`,
  // whose budget and retries are its own from now on.
  // Throws kMismatch (it cannot), and as Store.
  StudyLog(std::unique_ptr<control::Store> store, const StudyPlan& plan, const StudyLogOptions& options = {});
  // Opens the study in the store. Throws kNotFound if there is none.
  explicit StudyLog(std::unique_ptr<control::Store> store, const StudyLogOptions& options = {});

  const StudyPlan& plan() const { return plan_; }
  const History& history() const { return history_; }
  const TrialNotes& notes(std::uint64_t number) const { return notes_.at(number); }

  // Reads what others have committed. Whether there was anything, also in what a refused commit() has read since the
  // last call. REQUIRES: nothing is staged.
  bool catch_up();
  // Takes the event into history() at once; on disk with commit().
  void stage(StudyEvent event);
  // All that was staged, durable when this returns. False if another process has committed since catch_up(): then what
  // was staged is dropped, history() is what is on disk, and one has to decide again. References into history() end.
  // After a throw what was staged is dropped, and the next catch_up() reads what is on disk.
  bool commit() { return commit(true); }
  // The same without waiting for the disk, where the store can do that: it survives all processes but no power cut of
  // this machine. For what is of no use after one.
  bool commit_soon() { return commit(false); }
  bool staged() const { return !staged_.empty(); }
  // Drops what was staged since the last commit.
  void forget();

  // From now on this process is a member: trials that it runs carry this id.
  const std::string& join();
  // It is one no longer: trials that it still has are orphans at once.
  void leave();
  // Tells the others that this member lives; often enough is a third of the lease. `worked`: since join().
  void beat(std::chrono::nanoseconds worked);
  std::chrono::nanoseconds lease() const { return options_.lease; }
  // Numbers of running trials whose member is lost.
  std::vector<std::uint64_t> orphans();
  // What the other members have worked, in seconds, as of their last beats.
  double others_seconds();
  // All but the seconds.
  Spent spent() const;

 private:
  struct Seen {
    std::uint64_t revision = 0;
    Clock::Instant at;
  };

  // How a trial was before an event that was staged.
  struct Before {
    std::optional<Trial> trial{};
    TrialNotes notes{};
  };

  void open();
  void take_back();
  bool read_new();
  void replay(const control::Entry& entry);
  void reload();
  bool is_lost(const std::string& owner);
  bool commit(bool waits);

  std::unique_ptr<control::Store> store_;
  control::WriteAheadStore* ahead_ = nullptr;  // the same, if it can commit without waiting
  StudyLogOptions options_;
  StudyPlan plan_;
  History history_;
  std::vector<TrialNotes> notes_;
  std::uint64_t next_ = 0;      // number of the next commit
  std::uint64_t revision_ = 0;  // of the store, up to which everything was read
  bool stale_ = false;          // history_ may have what is not on disk: to be read anew
  bool unseen_ = false;         // a refused commit has read what others did, and catch_up() has not told it yet
  std::vector<StudyEvent> staged_;
  std::vector<Before> before_;  // of each of these
  std::string member_;
  std::map<std::string, Seen> seen_;  // members of other machines
};

// The numbers of trials as keys and folders have them: 7 -> "0007".
std::string trial_name(std::uint64_t number);

}  // namespace muster::tuning
