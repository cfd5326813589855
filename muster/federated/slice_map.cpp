// A corner is a set of runs of the innermost dimension, made once; all else are loops over the runs, in one order, so
// that sums have the same bits everywhere.
#include "muster/federated/slice_map.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"

namespace muster::federated {
namespace {

std::size_t product(std::span<const std::int64_t> shape) {
  return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

void require_corner(const TensorPlace& whole, const TensorPlace& slice) {
  bool fits = whole.name == slice.name && whole.shape.size() == slice.shape.size();
  for (std::size_t d = 0; fits && d < slice.shape.size(); ++d)
    fits = slice.shape[d] <= whole.shape[d];
  if (!fits)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} [{}] is no part of {} [{}]", slice.name, fmt::join(slice.shape, ", "), whole.name,
                            fmt::join(whole.shape, ", ")),
                "federated.submodels", "Change sizes of layers only, to smaller ones.");
}

}  // namespace

SliceMap::SliceMap(std::span<const TensorPlace> whole, std::span<const TensorPlace> slice) {
  if (whole.size() != slice.size())
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("a narrower model with {} tensors, and the whole one has {}", slice.size(), whole.size()),
                "federated.submodels", "Change sizes of layers only, not their number.");
  for (std::size_t t = 0; t < slice.size(); ++t) {
    require_corner(whole[t], slice[t]);
    const std::vector<std::int64_t>& inner = slice[t].shape;
    const std::size_t run = inner.empty() ? 1 : static_cast<std::size_t>(inner.back());
    const std::size_t count = product(inner);
    floats_ += count;
    for (std::size_t at = 0; at < count; at += run) {
      // The place of number `at` of the slice in the whole tensor.
      std::size_t rest = at;
      std::size_t place = 0;
      std::size_t stride = 1;
      for (std::size_t d = inner.size(); d-- > 0;) {
        place += rest % static_cast<std::size_t>(inner[d]) * stride;
        rest /= static_cast<std::size_t>(inner[d]);
        stride *= static_cast<std::size_t>(whole[t].shape[d]);
      }
      runs_.push_back({whole[t].offset + place, slice[t].offset + at, run});
    }
  }
}

void SliceMap::take(std::span<const float> whole, std::span<float> slice) const {
  for (const Run& run : runs_)
    std::ranges::copy(whole.subspan(run.whole, run.count), slice.begin() + static_cast<std::ptrdiff_t>(run.slice));
}

void SliceMap::add(std::span<const float> slice, float weight, std::span<float> whole) const {
  for (const Run& run : runs_) {
    for (std::size_t i = 0; i < run.count; ++i)
      whole[run.whole + i] += weight * slice[run.slice + i];
  }
}

void SliceMap::cover(double weight, std::span<double> whole) const {
  for (const Run& run : runs_) {
    for (std::size_t i = 0; i < run.count; ++i)
      whole[run.whole + i] += weight;
  }
}

void divide_by_cover(std::span<float> sum, std::span<const double> weights) {
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = weights[i] > 0 ? static_cast<float>(static_cast<double>(sum[i]) / weights[i]) : 0.0F;
}

}  // namespace muster::federated
