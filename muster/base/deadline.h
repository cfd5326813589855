// A point in time after which a wait must have ended. Every blocking call in Muster takes one.
#pragma once

#include <algorithm>
#include <chrono>

#include "muster/base/clock.h"

namespace muster {

// A value; it reads the clock it was made from, which must outlive it.
class Deadline {
 public:
  // A duration past the end of time, nanoseconds::max() for one, gives a deadline that never passes.
  static Deadline after(std::chrono::nanoseconds duration, const Clock& clock = system_clock()) {
    const Clock::Instant now = clock.now();
    const auto span = std::chrono::duration_cast<Clock::Instant::duration>(duration);
    return Deadline(clock, span > Clock::Instant::max() - now ? Clock::Instant::max() : now + span);
  }

  bool passed() const { return clock_->now() >= instant_; }
  // Never negative.
  std::chrono::nanoseconds remaining() const {
    return std::max(std::chrono::nanoseconds{0},
                    std::chrono::duration_cast<std::chrono::nanoseconds>(instant_ - clock_->now()));
  }
  Clock::Instant instant() const { return instant_; }

 private:
  Deadline(const Clock& clock, Clock::Instant instant) : clock_(&clock), instant_(instant) {}

  const Clock* clock_;
  Clock::Instant instant_;
};

}  // namespace muster
