// How a job comes to its end: what the ends of its workers, the signals that reach it and the time that passes make of
// it. It decides and does nothing: its supervisor looks, asks here, and acts. What the end of one worker means by
// itself is judged in worker_ending.h; who is started in its place in control/membership.h. Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/launch/child_process.h"
#include "muster/launch/early_endings.h"
#include "muster/launch/worker_ending.h"

namespace muster::launch {

struct LaneOfStep {
  std::uint64_t step = 0;  // committed steps before it
  int lane = 0;
  auto operator<=>(const LaneOfStep&) const = default;
};

// A worker that has ended, and what its supervisor knows of it.
struct EndedWorker {
  int rank = 0;
  pid_t pid = 0;
  Ending ending{};
  EndingView view{};                      // but for what is known here: signal, finishing, hopeless
  int failures = 0;                       // of its seat, before this
  std::chrono::nanoseconds member_for{};  // of a member
  bool silent = false;                    // it was killed because it was silent: by no fault of what it computed
  bool counts_steps = true;               // where servers keep the state nobody tells the supervisor of steps
  bool saw_no_step = false;               // none was committed in its life, as far as steps are counted
  std::string reason{};                   // that it has left in the job's store; empty: none
  Clock::Instant started{};
  std::uint64_t step = 0;           // committed
  std::vector<LaneOfStep> lanes{};  // that it had begun
  pid_t founder = 0;                // the process that makes the arena; 0: there is none
};

struct Aftermath {
  EndingJudgement judgement;
  int failures = 0;                 // of its seat, from now on
  std::vector<std::string> told{};  // for people
};

class JobEnding {
 public:
  // How the job stands.
  struct Now {
    std::uint64_t generation = 0;
    bool members = false;  // there are some
    bool ready = false;    // somebody waits to be let in
    std::uint64_t step = 0;
    pid_t founder = 0;  // as above
  };
  // Of those who are left when the job ends.
  struct Hurry {
    bool tell = false;            // all of them that it ends (SIGTERM)
    bool kill_newcomers = false;  // those who are no members came for nothing
    bool kill_all = false;        // they had their time
  };
  struct Leaver {
    int rank = 0;
    std::string told;
  };

  // `grace`: how long workers may take to end by themselves once one has finished the job. Empty: as long as they like,
  // of programs of which nobody knows what they do before and after they train.
  explicit JobEnding(std::optional<std::chrono::milliseconds> grace, const Clock& clock = system_clock())
      : grace_(grace), clock_(clock) {}

  // `explain` says why it died; it is asked of those that are lost.
  Aftermath bury(const EndedWorker& worker, const std::function<std::string(const Ending&)>& explain);
  // One that gave up while it waited for the arena has either said why, or has seen before us that its founder dies:
  // then another one will not do the same. What is known of it by now, if it is.
  std::optional<std::string> judge_who_gave_up(const Now& now);
  // Those who left in good order have come to the end of the job, unless others go on after them: their places stay
  // empty then, and the job goes on.
  std::vector<Leaver> early_leavers(const Now& now);

  // The signal that all workers get now, once; 0: none. `requested`: that was asked for so far; `stop`: it was asked
  // for in another way. Those who get it may be lost before one of them could end the job: others get it then.
  int signal_to_pass(int requested, bool stop, const Now& now);
  Hurry hurry(const Now& now);

  // A worker has finished the job; one has done as the signal asked.
  bool finishing() const { return finishing_; }
  bool stopped() const { return stopped_; }
  // Nobody is started or let in any more.
  bool admits_nobody() const { return finishing_ || stopped_together_ || passed_on_ != 0 || failed(); }
  // It has ended once nobody is left.
  bool over(const Now& now) const;
  // How the last member to fail by itself has ended; 0: none did.
  int failure() const { return failure_; }
  // A lane that has killed so many workers, whoever computes it.
  static constexpr int kDeathsOfALane = 2;
  const std::optional<LaneOfStep>& deadly_lane() const { return deadly_; }
  // Throws kPeerLost if a worker was killed that nobody can replace.
  int exit_code() const;

 private:
  // One that left in good order, or gave up.
  struct Gone {
    int rank = 0;
    pid_t pid = 0;
    Ending ending{};
    std::uint64_t step = 0;  // committed then
    Clock::Instant since{};  // then
    pid_t founder = 0;
  };

  bool failed() const { return hopeless_ != 0 || broken_by_; }
  void lose(const EndedWorker& worker, const Ending& ending, Aftermath& after);
  void count_lanes(const EndedWorker& worker, const Ending& ending);
  std::vector<std::string> failed_start(const Gone& gone) const;

  const std::optional<std::chrono::milliseconds> grace_;
  const Clock& clock_;
  bool finishing_ = false;
  bool stopped_ = false;
  bool stopped_together_ = false;  // workers did so with those of other hosts, before a signal came here
  int passed_on_ = 0;              // signal
  int hopeless_ = 0;               // exit code of a worker that could not begin
  int exit_code_ = 0;
  int failure_ = 0;
  std::vector<Gone> left_;         // and others may go on
  std::optional<Gone> gave_up_;    // and it is not certain yet that others would do the same
  std::optional<Gone> broken_by_;  // the first that was lost of workers that cannot be replaced
  EarlyEndings early_endings_;
  std::map<LaneOfStep, int> deaths_;
  std::optional<LaneOfStep> deadly_;
  bool told_of_failure_ = false;
  std::optional<Deadline> patience_;
};

}  // namespace muster::launch
