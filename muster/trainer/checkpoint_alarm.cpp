// A small state machine over the last outcome and the last time that something was said.
// Its clock is a parameter.
#include "muster/trainer/checkpoint_alarm.h"

#include <utility>

#include <fmt/format.h>

namespace muster::trainer {

std::optional<std::string> CheckpointAlarm::attempted(std::uint64_t step, const std::string& failure,
                                                      const std::string& cause) {
  const std::lock_guard lock(mutex_);
  const bool changed = failed_ == 0 || cause != cause_;
  failure_ = failure;
  cause_ = cause;
  if (failure.empty()) {
    if (std::exchange(failed_, 0) == 0) return std::nullopt;
    return fmt::format("checkpoints are written again, from step {} on", step);
  }
  if (failed_++ == 0) since_ = step;
  if (!changed && clock_.now() - told_ < again_after_) return std::nullopt;
  told_ = clock_.now();
  if (failed_ == 1) return fmt::format("checkpoint of step {} was not written: {}; training goes on", step, failure);
  return fmt::format("checkpoint of step {} was not written, nor any since step {}: {}; training goes on", step, since_,
                     failure);
}

std::string CheckpointAlarm::standing() const {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) return {};
  return fmt::format("no checkpoint was written since step {} ({} attempts): {}", since_, failed_, failure_);
}

}  // namespace muster::trainer
