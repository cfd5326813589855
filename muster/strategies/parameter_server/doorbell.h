// How one thread sleeps in shared memory until another process has something for it.
//
// The rule: whoever changes something stores it (seq_cst) and then calls ring_if_asleep(); the sleeper's ready() loads
// it (seq_cst). Both sides are sequentially consistent, so no ring is missed. A process that was killed between the two
// rings nobody: sleeps are short, and sleepers look again. No torch here.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>
#include <thread>

#include "muster/base/cores.h"

namespace muster::strategies {

// Lies in shared memory; all zero is a bell that nobody sleeps on. One sleeper, any number of others.
class Doorbell {
 public:
  static constexpr std::uint32_t kAnything = UINT32_MAX;

  // Wakes who sleeps for `what` or for anything. `what` is at least 1.
  void ring_if_asleep(std::uint32_t what) {
    std::uint32_t awaited = sleeping_for_.load();
    if (awaited == kAwake || (awaited != what && awaited != kAnything)) return;
    // Whoever comes second finds the sleeper awake, and saves the system call.
    if (sleeping_for_.compare_exchange_strong(awaited, kAwake)) ring();
  }
  void ring() {
    bell_.fetch_add(1);
    futex(FUTEX_WAKE, INT_MAX, nullptr);
  }

  // Returns when rung, or ready, or after `longest`.
  template <typename Ready>
  void sleep(std::uint32_t what, const Ready& ready, std::chrono::nanoseconds longest) {
    const std::uint32_t bell = bell_.load();
    sleeping_for_.store(what);
    // Looked at again after the store: a change before it would not have rung.
    if (!ready()) {
      const timespec timeout{static_cast<time_t>(longest.count() / 1000000000), longest.count() % 1000000000};
      futex(FUTEX_WAIT, bell, &timeout);
    }
    sleeping_for_.store(kAwake);
  }

 private:
  static constexpr std::uint32_t kAwake = 0;

  void futex(int operation, std::uint32_t value, const timespec* timeout) {
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&bell_), operation, value, timeout, nullptr, 0);
  }

  std::atomic<std::uint32_t> bell_;
  std::atomic<std::uint32_t> sleeping_for_;
};
static_assert(sizeof(Doorbell) == 8 && std::atomic<std::uint64_t>::is_always_lock_free);

// What comes before a sleep: an answer is often there sooner than a sleep and a wake take. With more processes than
// cores spinning would keep the other side from running, so there the core is given away instead.
class ShortWait {
 public:
  explicit ShortWait(int processes) {
    const bool crowded = processes > usable_cores().usable;
    spins_ = crowded ? 20 : 1000;
    yields_ = crowded ? 50 : 4;
  }

  // Whether it became ready.
  template <typename Ready>
  bool operator()(const Ready& ready) const {
    for (int spin = 0; spin < spins_; ++spin) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#else
      std::this_thread::yield();
#endif
    }
    for (int turn = 0; turn < yields_; ++turn) {
      ::sched_yield();
      if (ready()) return true;
    }
    return false;
  }

 private:
  int spins_;
  int yields_;
};

}  // namespace muster::strategies
