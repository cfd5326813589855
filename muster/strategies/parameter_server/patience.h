// How long somebody waits for servers and other workers: judged by whether they get on, not by a fixed time alone. A
// server that takes another one's place may load for as long as its part of the model needs.
//
// Where somebody watches (a supervisor, which sees who gets on, replaces who does not and ends the job when nobody can
// be replaced) a wait has no limit of its own. Where nobody does it ends when nothing has changed for its whole time.
// Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "muster/base/clock.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"

namespace muster::strategies {

class Patience {
 public:
  // Until the deadline, or for as long as from now to it once more after everything that changes. `watched` says
  // whether somebody watches now; it outlives this.
  Patience(const Deadline& deadline, const std::function<bool()>& watched, const Clock& clock = system_clock())
      : clock_(clock), watched_(watched), length_(deadline.remaining()), until_(deadline) {}

  // Whether to give up; to be asked again and again. `progress` is any number that changes when what is waited for gets
  // on.
  bool is_over(std::uint64_t progress = 0) {
    if (progress_ && *progress_ != progress) until_ = Deadline::after(length_, clock_);
    progress_ = progress;
    if (!until_.passed()) return false;
    if (!watched_()) return true;
    until_ = Deadline::after(kAskAgain, clock_);
    return false;
  }
  // Until it has to be asked.
  std::chrono::nanoseconds remaining() const { return until_.remaining(); }
  // What `wait` gives, which is called with a deadline and throws kTimeout when it has passed: again and again, until
  // this is over.
  template <typename Wait>
  auto until_over(const Wait& wait) {
    for (;;) {
      try {
        return wait(Deadline::after(remaining()));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kTimeout || is_over()) throw;
      }
    }
  }

 private:
  // Asking looks into the job's folder and at processes.
  static constexpr std::chrono::milliseconds kAskAgain{100};

  const Clock& clock_;
  const std::function<bool()>& watched_;
  const std::chrono::nanoseconds length_;
  Deadline until_;
  std::optional<std::uint64_t> progress_;
};

}  // namespace muster::strategies
