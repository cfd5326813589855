// Checks before anything is built,
// so that a mistake is named by its option and not by what it breaks later.
#include "muster/trainer/session_options.h"

#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/compute/reduce.h"

namespace muster::trainer {
namespace {

template <typename Value>
void require(bool condition, const char* option, const Value& value, const char* remedy) {
  if (condition) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("SessionOptions::{} is {}", option, value), {}, remedy);
}

}  // namespace

void check_clip_norm(const std::optional<double>& clip_norm) {
  if (!clip_norm) return;
  require(std::isfinite(*clip_norm) && *clip_norm > 0, "clip_norm", *clip_norm,
          "A gradient is scaled down to this norm: use a number above 0, or leave it empty for no clipping.");
}

std::size_t check_options(const SessionOptions& options) {
  if (options.batch == 0) throw Error(ErrorKind::kInvalidInput, "the batch is empty", {}, "Set SessionOptions::batch.");
  const std::uint64_t lanes = options.lanes.value_or(data::default_lanes(options.batch));
  if (lanes == 0 || lanes > compute::kMaxLanes || (lanes > 1 && options.batch < 2 * lanes)) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} lanes for a batch of {}", lanes, options.batch), {},
                fmt::format("Use 1 to {} lanes, with at least 2 samples in each.", compute::kMaxLanes));
  }
  require(options.threads > 0, "threads", options.threads, "A lane is computed by one thread or more.");
  require(options.loader_threads >= 0, "loader_threads", options.loader_threads,
          "Use 1 or more, or 0 for samples that are read between steps.");
  require(options.verify_rate >= 0 && options.verify_rate <= 1, "verify_rate", options.verify_rate,
          "It is a share of all lanes, from 0 to 1.");
  if (options.mixup_alpha)
    require(std::isfinite(*options.mixup_alpha) && *options.mixup_alpha > 0, "mixup_alpha", *options.mixup_alpha,
            "Use a number above 0, or leave it empty.");
  require(options.load_timeout.count() > 0, "load_timeout", options.load_timeout.count(), "Use a second or more.");
  require(options.step_timeout.count() > 0, "step_timeout", options.step_timeout.count(), "Use a second or more.");
  check_clip_norm(options.clip_norm);
  compute::validate(options.schedule);
  return lanes;
}

}  // namespace muster::trainer
