// Finds workers that are to be killed although they live: silent, hung, or stuck before they could train. It looks at
// the arena's words and, where these are suspicious, at the process (process_watch.h); control/liveness.h judges.
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/board.h"
#include "muster/control/process_watch.h"
#include "muster/control/worker.h"

namespace muster::launch {

struct WorkerWatchOptions {
  // Without a sign of life for so long, although nothing kept it from giving one: silent.
  std::chrono::nanoseconds liveness = std::chrono::seconds(2);
  // At one lane, or one batch of an evaluation, for longer than this and than ten steps usually take, of which it could
  // run for half: hung. While it is new, six times this longer.
  std::chrono::nanoseconds hang = std::chrono::seconds(10);
  // Not ready, and neither computing nor reading nor writing for so long: stuck.
  std::chrono::nanoseconds start = std::chrono::minutes(10);
};

// What is seen of a worker now.
struct WorkerSigns {
  pid_t group = 0;                            // of the process that was started for it
  bool seated = false;                        // it sits in the arena
  bool unknown = false;                       // what it does until then is nobody's affair
  std::chrono::nanoseconds beat{};            // its last, of the monotonic clock; 0: none yet
  std::optional<comm::Board::Doing> doing{};  // of a member
};

struct Finding {
  bool silent = false;  // stopped or starved from outside, so it is nothing that it computed
  bool hung = false;    // at what it was doing
  std::string reason;   // completes "worker 2 ..."
};

class WorkerWatch {
 public:
  WorkerWatch(const WorkerWatchOptions& options, std::size_t seats, const Clock& clock = system_clock(),
              const control::ProcessWatch::View& signs = signs_of,
              const control::StartWatch::View& work = work_of_group);

  // The number of committed steps, at every look: from it comes what a step usually takes.
  void see_step(std::uint64_t step);
  // Why the worker has to be killed, if it has. REQUIRES: worker.rank < seats.
  std::optional<Finding> look_at(const control::Worker& worker, const WorkerSigns& signs);

 private:
  struct Seat {
    control::ProcessWatch silence;
    control::ProcessWatch work;
    control::StartWatch start;
  };

  std::optional<Finding> look_at_end(Seat& seat, const control::Worker& worker, const comm::Board::Doing& doing);
  std::optional<Finding> look_at_silence(Seat& seat, const control::Worker& worker, const WorkerSigns& signs);
  std::optional<Finding> look_at_work(Seat& seat, const control::Worker& worker, const WorkerSigns& signs);
  std::chrono::nanoseconds hang_limit(std::chrono::nanoseconds member_for) const;

  const WorkerWatchOptions options_;
  const Clock& clock_;
  std::vector<Seat> seats_;
  std::uint64_t last_step_ = 0;
  std::optional<Clock::Instant> last_step_at_;
  std::deque<std::chrono::nanoseconds> step_times_;
};

}  // namespace muster::launch
