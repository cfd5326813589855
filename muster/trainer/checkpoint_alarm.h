// What people are told of checkpoints that cannot be written, while training goes on: at once when it begins or the
// reason changes, then now and then, and when it is over. A disk that stays full must not fill the log as well.
//
// Thread safety: every method from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "muster/base/clock.h"

namespace muster::trainer {

class CheckpointAlarm {
 public:
  explicit CheckpointAlarm(const Clock& clock = system_clock(),
                           std::chrono::nanoseconds again_after = std::chrono::minutes(5))
      : clock_(clock), again_after_(again_after) {}

  // After each attempt to write the checkpoint of `step`. `failure` is what happened, empty when it was written, and
  // `cause` the part of it that is the same for every file. Gives what to say, if anything.
  std::optional<std::string> attempted(std::uint64_t step, const std::string& failure, const std::string& cause);
  // What is wrong now; empty when the last attempt went well.
  std::string standing() const;

 private:
  // constant after construction
  const Clock& clock_;
  const std::chrono::nanoseconds again_after_;
  // guarded by mutex_
  mutable std::mutex mutex_;
  std::string failure_;       // of the last attempt
  std::string cause_;         // likewise
  std::uint64_t failed_ = 0;  // attempts in a row
  std::uint64_t since_ = 0;   // the step of the first of them
  Clock::Instant told_{};
};

}  // namespace muster::trainer
