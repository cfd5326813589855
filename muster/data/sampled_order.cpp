// The last epochs are kept, because all lanes of an epoch and reading ahead ask for the same ones. What a program gives
// for an epoch is checked when the epoch is first asked for.
#include "muster/data/sampled_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::data {
namespace {

constexpr std::size_t kKeptEpochs = 2;

}  // namespace

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
