// Time between two looks counts up to a limit only: what nobody looked at is not held against a process. All of /proc
// is read for a group, so that is done at most once a second.
#include "muster/control/process_watch.h"

#include <algorithm>

namespace muster::control {
namespace {

constexpr std::chrono::seconds kStartLook{1};  // all of /proc is read

}  // namespace

Seen ProcessWatch::look(const ProcessId& process, Clock::Instant since) {
  const ProcessSigns signs = view_(process);
  const auto now = clock_.now();
  if (!(process == process_) || since != since_) {
    process_ = process;
    since_ = since;
    given_before_ = signs.processor;
    stopped_.reset();
    idle_time_.reset();
  }
  const std::chrono::nanoseconds passed = std::min<std::chrono::nanoseconds>(now - looked_, gap_);
  looked_ = now;
  const auto note = [&](std::optional<std::chrono::nanoseconds>& time, bool holds) {
    time = !holds ? std::nullopt : std::optional(time ? *time + passed : std::chrono::nanoseconds(0));
    return time.value_or(std::chrono::nanoseconds(0));
  };
  const bool stopped = signs.state == ProcessState::kStopped;
  Seen seen;
  seen.lasts = now - since;
  seen.stopped = note(stopped_, stopped);
  seen.idle = note(idle_time_, !stopped && !(idle_ == Idle::kSilent ? signs.wants : signs.works));
  seen.given = signs.processor - given_before_;
  return seen;
}

std::chrono::nanoseconds StartWatch::since_progress(pid_t leader) {
  const auto now = clock_.now();
  const bool known = leader == leader_;
  if (known && now - looked_ < kStartLook) return without_;
  const GroupWork work = view_(leader);
  without_ = known && work == last_ ? without_ + std::min<std::chrono::nanoseconds>(now - looked_, 2 * kStartLook)
                                    : std::chrono::nanoseconds(0);
  leader_ = leader;
  last_ = work;
  looked_ = now;
  return without_;
}

}  // namespace muster::control
