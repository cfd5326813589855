// What to do between two looks at something that cannot be slept on. Thread safety: one thread.
#pragma once

#include <sched.h>

#include <chrono>

#include "muster/base/clock.h"

namespace muster::comm {

// What is under way arrives within the first few looks, which follow each other at once; whoever waits longer gives its
// core away, and sleeps for short whiles at last.
class Pause {
 public:
  void operator()() {
    ++looks_;
    if (looks_ > kYields)
      system_clock().sleep_for(std::chrono::microseconds(50));
    else if (looks_ > kSpins)
      ::sched_yield();
  }

 private:
  static constexpr int kSpins = 200;
  static constexpr int kYields = 4000;
  int looks_ = 0;
};

}  // namespace muster::comm
