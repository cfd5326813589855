// Ranges are cut at member * units / members, so that any number of members can share any number of units; strides are
// those of the whole tensor.
#include "muster/model/shard.h"

#include <functional>
#include <numeric>

#include "muster/base/check.h"

namespace muster::model {

Share share_of(std::int64_t size, std::int64_t unit, std::size_t member, std::size_t members) {
  MUSTER_CHECK(member < members && unit > 0 && size % unit == 0, "a member's share of whole units");
  const std::int64_t units = size / unit;
  const auto all = static_cast<std::int64_t>(members);
  const auto own = static_cast<std::int64_t>(member);
  const std::int64_t first = own * units / all;
  return {first * unit, ((own + 1) * units / all - first) * unit};
}

std::int64_t Shard::count() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies{});
}

bool Shard::is_contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

Shard shard_of(const Split& split, std::span<const std::int64_t> shape, std::size_t member, std::size_t members) {
  const auto dimension = static_cast<std::size_t>(split.dimension);
  MUSTER_CHECK(dimension < shape.size() && shape[dimension] % split.groups == 0, "a dimension that can be divided");
  const std::int64_t group = shape[dimension] / split.groups;
  const Share share = share_of(group, split.unit, member, members);
  Shard shard;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    shard.sizes.insert(shard.sizes.begin(), i == dimension ? share.count : shape[i]);
    shard.strides.insert(shard.strides.begin(), stride);
    if (i == dimension) {
      shard.offset = share.first * stride;
      if (split.groups > 1) {
        shard.sizes.insert(shard.sizes.begin(), split.groups);
        shard.strides.insert(shard.strides.begin(), group * stride);
      }
    }
    stride *= shape[i];
  }
  return shard;
}

}  // namespace muster::model
