// One pass over the keys with an index that fetches ahead; rows are then added in the order of the batch, because the
// order of additions is part of the bits.
#include "muster/strategies/parameter_server/row_merger.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kMostKeys = std::size_t{1} << 31;
constexpr std::size_t kAhead = 16;  // keys between prefetch and use

}  // namespace

void RowMerger::merge_keys(std::span<const std::int64_t> keys) {
  if (keys.size() >= kMostKeys)
    throw Error(ErrorKind::kInvalidInput, fmt::format("a batch of {} keys", keys.size()), "embedding table",
                "Push and pull in smaller batches.");
  // A batch is mostly pulled and then pushed.
  if (!keys.empty() && std::ranges::equal(keys, batch_)) return;
  batch_.clear();  // should the rest throw
  index_.clear();
  keys_.clear();
  first_.clear();
  slots_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + kAhead < keys.size()) index_.prefetch(keys[i + kAhead]);
    const auto [slot, added] = index_.insert(keys[i], static_cast<std::uint32_t>(keys_.size()));
    slots_[i] = slot;
    if (!added) continue;
    keys_.push_back(keys[i]);
    first_.push_back(static_cast<std::uint32_t>(i));
  }
  batch_.assign(keys.begin(), keys.end());
}

std::span<const float> RowMerger::merge_rows(std::span<const float> gradients, std::size_t width) {
  MUSTER_CHECK(gradients.size() == width * slots_.size(), "rows that do not fit their keys");
  if (!has_duplicates()) return gradients;
  sums_.resize(width * keys_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const float* const row = gradients.data() + i * width;
    float* const sum = sums_.data() + slots_[i] * width;
    if (first_[slots_[i]] == i) {
      std::copy_n(row, width, sum);
    } else {
      for (std::size_t j = 0; j < width; ++j)
        sum[j] += row[j];
    }
  }
  return sums_;
}

MergedRows merge_duplicates(std::span<const std::int64_t> keys, std::span<const float> gradients, std::size_t width) {
  RowMerger merger;
  merger.merge_keys(keys);
  const std::span<const float> rows = merger.merge_rows(gradients, width);
  return {{merger.keys().begin(), merger.keys().end()}, {rows.begin(), rows.end()}};
}

}  // namespace muster::strategies
