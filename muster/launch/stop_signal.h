// Whether this process was asked to end by SIGINT or SIGTERM, for one that finishes something first.
//
// While such an object lives the first of these signals is only noted, and the next one does what it would have done
// before. A signal that the program handles or ignores itself is left alone. Signals are the process's, so there is one
// note for all objects. Thread safety: number() and wait() from any thread.
#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <optional>

namespace muster::launch {

class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  // Puts back what was there, unless somebody else has put something there since.
  ~StopSignal();

  // 0: not asked so far.
  int number() const;
  // The same, for one that is about to come: waits for it for `longest` at most.
  int wait(std::chrono::nanoseconds longest) const;

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM};
  std::array<std::optional<struct sigaction>, kSignals.size()> before_;
};

}  // namespace muster::launch
