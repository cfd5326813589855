// Rows are thinned to about a hundred an epoch; where workers go apart, what lies between two is summed up in the next
// one.
#include "muster/trainer/step_rows.h"

#include <algorithm>
#include <utility>

namespace muster::trainer {
namespace {

constexpr std::uint64_t kRowsPerEpoch = 100;

}  // namespace

void StepsTold::add(const strategies::StepOutcome& outcome, double its_seconds) {
  const auto count = static_cast<double>(outcome.samples);
  samples += count;
  score += outcome.score;
  seconds += its_seconds;
  loss += (outcome.loss - loss) * (count / std::max(samples, 1.0));
  if (outcome.gradient_norm != 0) gradient_norm = outcome.gradient_norm;
}

double StepsTold::mean_score() const {
  return score / std::max(samples, 1.0);
}

double StepsTold::samples_per_second() const {
  return samples / std::max(seconds, 1e-9);
}

std::optional<StepsTold> StepRows::add(std::uint64_t in_epoch, std::uint64_t steps_per_epoch,
                                       const strategies::StepOutcome& outcome, double seconds) {
  const std::uint64_t interval = (steps_per_epoch + kRowsPerEpoch - 1) / kRowsPerEpoch;
  if (outcome.synchronized) untold_ = {};
  untold_.add(outcome, seconds);
  const bool due = in_epoch % interval == 0 || in_epoch == steps_per_epoch;
  if ((!due || untold_.samples <= 0) && outcome.applied) return std::nullopt;
  return std::exchange(untold_, {});
}

}  // namespace muster::trainer
