// Draws are by the cumulative sums of the weights and a stream of random numbers of the epoch. What a program gives is
// checked when an epoch is first asked for.
#include "muster/data/sampling.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::data {
namespace {

constexpr std::size_t kKeptEpochs = 2;

}  // namespace

Sampling weighted(std::span<const double> weights, std::uint64_t samples, std::uint64_t seed) {
  auto sums = std::make_shared<std::vector<double>>();
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      throw Error(ErrorKind::kInvalidInput, fmt::format("the weight of sample {} is {}", i, weights[i]), "weighted",
                  "Use numbers of at least 0.");
    sums->push_back(sum += weights[i]);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw Error(ErrorKind::kInvalidInput, fmt::format("the weights of all samples come to {}", sum), "weighted",
                "Some have to be above 0.");
  const auto draw = [sums, samples, seed](std::uint64_t epoch) {
    RandomStream random({.seed = seed, .purpose = Purpose::kSampling, .epoch = epoch});
    std::vector<std::uint64_t> ids(samples);
    for (std::uint64_t& id : ids) {
      // The first sum above the draw: samples without weight are never it. The very last sum is rounded, so a draw may
      // come to it.
      const double at = random.uniform() * sums->back();
      const auto above = std::upper_bound(sums->begin(), sums->end(), at);
      const auto last = std::lower_bound(sums->begin(), sums->end(), sums->back());
      id = static_cast<std::uint64_t>(std::min(above, last) - sums->begin());
    }
    return ids;
  };
  return {samples, draw};
}

SampledOrder::SampledOrder(Sampling sampling, std::uint64_t batch, std::uint64_t lanes, std::uint64_t dataset_size)
    : sampling_(std::move(sampling)), shape_{sampling_.samples, batch, lanes}, dataset_size_(dataset_size) {
  if (sampling_.samples == 0 || !sampling_.ids)
    throw Error(ErrorKind::kInvalidInput, "a sampling without samples", {},
                "Set Sampling::samples, of an epoch, and Sampling::ids, which gives them.");
}

std::vector<std::uint64_t> SampledOrder::make(std::uint64_t epoch) const {
  std::vector<std::uint64_t> ids = sampling_.ids(epoch);
  if (ids.size() != sampling_.samples)
    throw Error(ErrorKind::kInvalidInput, fmt::format("the sampling gives {} samples for epoch {}, and said {}",
                                                      ids.size(), epoch, sampling_.samples));
  for (const std::uint64_t id : ids) {
    if (id >= dataset_size_)
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("the sampling gives sample {} in epoch {}, and the data set has {}", id, epoch, dataset_size_));
  }
  return ids;
}

std::vector<std::uint64_t> SampledOrder::ids(const StepPlan& plan, std::size_t lane) const {
  const MutexLock lock(mutex_);
  const std::uint64_t number = plan.at.epoch;
  auto epoch = std::ranges::find_if(epochs_, [&](const Epoch& one) { return one.number == number; });
  if (epoch == epochs_.end()) {
    std::vector<std::uint64_t> made = make(number);
    if (epochs_.size() == kKeptEpochs) epochs_.erase(epochs_.begin());
    epochs_.push_back({number, std::move(made)});
    epoch = epochs_.end() - 1;
  }
  const LaneRange range = plan.lanes[lane];
  return {epoch->ids.begin() + static_cast<std::ptrdiff_t>(range.begin),
          epoch->ids.begin() + static_cast<std::ptrdiff_t>(range.end)};
}

}  // namespace muster::data
