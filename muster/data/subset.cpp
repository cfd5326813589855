// A permutation of the parent's ids, cut by a range: nothing is stored a sample. Part and rest of a split share it, so
// that no sample is in both.
#include "muster/data/subset.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {

Subset::Subset(std::shared_ptr<const Dataset> dataset, const Permutation& order, std::uint64_t begin, std::uint64_t end)
    : dataset_(std::move(dataset)), order_(order), begin_(begin), end_(end) {
  MUSTER_CHECK(order_.size() == dataset_->size(), "an order of another data set");
  MUSTER_CHECK(begin_ <= end_ && end_ <= order_.size(), "a range beyond the data set");
}

std::uint64_t Subset::original(std::uint64_t id) const {
  MUSTER_CHECK(id < size(), "sample id beyond the subset");
  return order_(begin_ + id);
}

std::int64_t Subset::read(std::uint64_t id, std::span<float> features) const {
  return dataset_->read(original(id), features);
}

std::int64_t Subset::read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const {
  return dataset_->read_in_epoch(original(id), epoch, features);
}

void Subset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  dataset_->read_sample(original(id), room);
}

std::vector<std::uint64_t> Subset::originals(std::span<const std::uint64_t> ids) const {
  std::vector<std::uint64_t> originals;
  originals.reserve(ids.size());
  for (const std::uint64_t id : ids)
    originals.push_back(original(id));
  return originals;
}

void Subset::will_read(std::span<const std::uint64_t> ids) const {
  dataset_->will_read(originals(ids));
}

void Subset::expect(std::span<const std::uint64_t> ids) const {
  dataset_->expect(originals(ids));
}

SplitPlan plan_split(std::uint64_t size, double fraction, std::uint64_t seed) {
  // Written so that not-a-number is refused too.
  if (!(fraction >= 0 && fraction < 1)) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot hold out the fraction {} of the samples", fraction), {},
                "Choose a fraction from 0 up to, but not including, 1.");
  }
  std::uint64_t held_out = 0;
  if (fraction > 0) {
    if (size < 2) {
      throw Error(
          ErrorKind::kInvalidInput,
          fmt::format("{} cannot be split in two", size == 0 ? "a data set without samples" : "a single sample"), {},
          "Bring more data, or hold nothing out: data.validation = 0, and a test set of its own (data.test_path).");
    }
    const auto nearest = static_cast<std::uint64_t>(std::round(fraction * static_cast<double>(size)));
    held_out = std::clamp<std::uint64_t>(nearest, 1, size - 1);
  }
  return {.order = Permutation(size, StreamKey{.seed = seed, .purpose = Purpose::kSplit}), .held_out = held_out};
}

Split split(std::shared_ptr<const Dataset> dataset, double fraction, std::uint64_t seed) {
  const std::uint64_t size = dataset->size();
  const SplitPlan plan = plan_split(size, fraction, seed);
  return {.train = std::make_shared<Subset>(dataset, plan.order, plan.held_out, size),
          .validation = std::make_shared<Subset>(dataset, plan.order, 0, plan.held_out)};
}

}  // namespace muster::data
