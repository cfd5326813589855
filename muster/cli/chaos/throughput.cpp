// The formula of the header over the steps that were seen. Time in which nobody could have trained is taken off, so
// that the ratio tells of Muster and not of the faults.
#include "muster/cli/chaos/throughput.h"

#include <algorithm>

namespace muster::cli {
namespace {

struct Progress {
  double seconds = 0;
  double steps = 0;
};

Progress progress(const std::vector<ChaosSample>& samples, double begin, double end) {
  const ChaosSample* first = nullptr;
  const ChaosSample* last = nullptr;
  for (const ChaosSample& sample : samples) {
    if (!sample.live || sample.at < begin || sample.at > end) continue;
    if (first == nullptr) first = &sample;
    last = &sample;
  }
  if (first == nullptr) return {};
  return {last->at - first->at, static_cast<double>(last->step) - static_cast<double>(first->step)};
}

}  // namespace

double step_rate(const std::vector<ChaosSample>& samples, double begin, double end) {
  const Progress made = progress(samples, begin, end);
  return made.seconds > 0 ? made.steps / made.seconds : 0;
}

std::optional<Throughput> throughput(const std::vector<ChaosSample>& samples, const std::vector<MadeFault>& faults,
                                     double begin, double end, double calm_rate, double liveness, int workers) {
  const Progress made = progress(samples, begin, end);
  Throughput result;
  result.calm_rate = calm_rate;
  result.seconds = made.seconds;
  result.steps = made.steps;
  for (const MadeFault& fault : faults) {
    if (fault.fault == Fault::kCoordinator) continue;  // training goes on without one
    if (fault.fault == Fault::kStop) {
      const double stopped = fault.continued ? std::min(*fault.continued - fault.at, liveness) : liveness;
      result.detection_seconds += std::clamp(end - fault.at, 0.0, stopped);
    }
    if (fault.gone && *fault.gone < end)
      result.start_up_seconds += (std::min(fault.replaced.value_or(end), end) - *fault.gone) / workers;
  }
  result.ideal_steps = calm_rate * (made.seconds - result.detection_seconds - result.start_up_seconds);
  if (calm_rate <= 0 || result.ideal_steps <= 0) return std::nullopt;
  result.share = result.steps / result.ideal_steps;
  return result;
}

}  // namespace muster::cli
