// What the end of a worker says about the one that would take its place: a process that fails before its first step
// fails by what it was started with, and one that fails where the one before it did, with the same words, by what the
// program does there; another one would do the same. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/clock.h"
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

  // A worker that trained has ended by itself, with an error.
  struct Failure {
    std::size_t worker = 0;
    int exit_code = 0;
    std::uint64_t step = 0;  // committed
    std::string reason{};    // that it has left; empty: none
    Clock::Instant started{};
    Clock::Instant ended{};
  };
  // Why the job cannot go on, if another one failed so before this one was started: those who were there together may
  // have had one cause, which is gone.
  std::optional<std::string> failed(const Failure& failure);

 private:
  struct Crash {
    std::size_t worker = 0;
    int signal = 0;
    std::uint64_t step = 0;
  };
  std::optional<Crash> last_;
  std::optional<Failure> failure_;  // the first of those that are alike
};

}  // namespace muster::launch
