// What the end of a worker says about the one that would take its place: a process that fails before its first step
// fails by what it was started with, and another one would do the same. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "muster/launch/child_process.h"

namespace muster::launch {

// By an exit code that says so (base/error.h): somebody has to change something first.
bool is_users_mistake(const Ending& ending);
// By a fault of its own, and not by somebody's kill.
bool is_crash(const Ending& ending);

class EarlyEndings {
 public:
  // A worker crashed that has seen no step be committed; `step` are committed. Why the job cannot go on, if this is the
  // second in a row that ended so.
  std::optional<std::string> crashed(std::size_t worker, const Ending& ending, std::uint64_t step);

 private:
  struct Crash {
    std::size_t worker = 0;
    int signal = 0;
    std::uint64_t step = 0;
  };
  std::optional<Crash> last_;
};

}  // namespace muster::launch
