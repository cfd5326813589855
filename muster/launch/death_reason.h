// Why a worker died, or does not, in words: a SIGKILL that nobody here sent may have been the kernel's, for lack of
// memory.
//
// The kernel counts such kills in the memory control group of the process. Once a process is dead its group cannot be
// asked for any more, so the living are looked at now and then. Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/memory_group.h"
#include "muster/launch/child_process.h"

namespace muster::launch {

class DeathReasons {
 public:
  explicit DeathReasons(const Clock& clock = system_clock()) : clock_(clock) {}

  // To be called again and again while it lives: notes its group, and how often the kernel has killed there.
  void look_at(pid_t pid);
  // How the process ended, and why if that is known. Forgets it.
  std::string explain(pid_t pid, const Ending& ending);

 private:
  struct Count {
    std::uint64_t kills = 0;
    Clock::Instant at;
  };
  struct Known {
    MemoryGroup group;
    Count older;  // what a death is held against: a process may take a while to die once the kernel has counted it
    Count newer;
  };

  const Clock& clock_;
  std::map<pid_t, Known> known_;
};

// Why a process that was killed does not die, as far as the kernel tells: a thread of it that sleeps and cannot be
// woken. Empty: not known.
std::string why_it_lives(pid_t pid);

}  // namespace muster::launch
