// Watches a process that is suspected of something: turns looks at it, now and then, into what control/liveness.h
// judges by. The clock and the view of processes are parameters. Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>

#include "muster/base/clock.h"
#include "muster/base/process_signs.h"
#include "muster/control/liveness.h"

namespace muster::control {

class ProcessWatch {
 public:
  using View = std::function<ProcessSigns(const ProcessId&)>;
  enum class Idle {
    kSilent,   // no thread wants to run: of a process without signs of life
    kWaiting,  // no thread but the heartbeat's wants to: of one that gives them
  };

  // Of the time between two looks at most `gap` counts: whoever looks later than that was held up itself, and what it
  // looks at perhaps as well.
  ProcessWatch(Idle idle, std::chrono::nanoseconds gap, const Clock& clock = system_clock(), View view = signs_of)
      : idle_(idle), gap_(gap), clock_(clock), view_(std::move(view)) {}

  // A look at `process` because of what began at `since`. What it was given counts from the first look at that on.
  Seen look(const ProcessId& process, Clock::Instant since);

 private:
  const Idle idle_;
  const std::chrono::nanoseconds gap_;
  const Clock& clock_;
  const View view_;
  ProcessId process_;
  Clock::Instant since_;
  std::chrono::nanoseconds given_before_{};
  Clock::Instant looked_;
  // Seen at the last look; for how long until then.
  std::optional<std::chrono::nanoseconds> stopped_;
  std::optional<std::chrono::nanoseconds> idle_time_;
};

// How far processes that start have got, one at a time: whoever shows work is left alone.
class StartWatch {
 public:
  using View = std::function<GroupWork(pid_t)>;
  explicit StartWatch(const Clock& clock = system_clock(), View view = work_of_group)
      : clock_(clock), view_(std::move(view)) {}

  // For how long the process group of `leader` has shown no work. Looks into /proc once a second at most; a process
  // that was not watched before begins now. Of a longer time between two looks only a little counts.
  std::chrono::nanoseconds since_progress(pid_t leader);
  // Whether it was stopped at the last look.
  bool stopped() const { return last_.stopped; }

 private:
  const Clock& clock_;
  const View view_;
  pid_t leader_ = 0;
  Clock::Instant looked_;
  GroupWork last_;
  std::chrono::nanoseconds without_{};
};

}  // namespace muster::control
