// Waits for what tells nobody that it has happened: the state of a process, a file, a counter of another thread.
//
// Every such wait has a deadline and says whether it came. What can be waited for itself (a thread's end, a condition,
// a pipe) is not polled.
#pragma once

#include <algorithm>
#include <chrono>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"

namespace muster {

// Whether `condition()` held before the deadline passed; it is asked once more when it has. The looks become rarer, so
// that what comes soon is seen soon and a long wait takes no core from what is waited for.
template <typename Condition>
[[nodiscard]] bool eventually(const Condition& condition,
                              const Deadline& deadline = Deadline::after(std::chrono::seconds(60))) {
  constexpr std::chrono::microseconds kLongest{2000};
  for (std::chrono::microseconds pause{50};; pause = std::min(2 * pause, kLongest)) {
    const bool last = deadline.passed();
    if (condition()) return true;
    if (last) return false;
    system_clock().sleep_for(pause);
  }
}

}  // namespace muster
