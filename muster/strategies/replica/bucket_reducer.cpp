// Cuts the layout into buckets once; a step sums this worker's lanes into shared memory and reduces bucket by bucket
// there. A tensor of which no lane has a gradient is sent as -0, which changes no sum.
#include "muster/strategies/replica/bucket_reducer.h"

#include <algorithm>
#include <utility>

namespace muster::strategies {

std::vector<Bucket> plan_buckets(const model::FlatLayout& layout, std::size_t bytes, bool trainable) {
  const std::uint64_t floats = bytes / sizeof(float);
  const std::vector<model::Block>& blocks = layout.blocks();
  std::vector<Bucket> buckets;
  for (std::size_t index = 0; index < blocks.size(); ++index) {
    const model::Block& block = blocks[index];
    if (layout.tensors()[block.tensor].trainable != trainable) continue;
    const bool fits =
        !buckets.empty() && buckets.back().blocks.last == index && block.end - buckets.back().begin <= floats;
    if (!fits) buckets.push_back({{index, index}, block.begin, block.begin});
    buckets.back().blocks.last = index + 1;
    buckets.back().end = block.end;
  }
  return buckets;
}

void PlainCodec::all_reduce(comm::Group& group, std::size_t, std::span<float> values, const Deadline& deadline) {
  group.all_reduce(values, comm::Reduction::kSum, deadline);
}

void sum_lanes(const model::FlatLayout& layout, std::span<const compute::LaneGradient> lanes,
               compute::BlockRange blocks, std::span<float> sums) {
  const auto absent = [](const compute::LaneGradient& lane, std::uint32_t tensor) { return lane.present[tensor] == 0; };
  for (std::size_t index = blocks.first; index < blocks.last; ++index) {
    const model::Block& block = layout.blocks()[index];
    if (std::ranges::all_of(lanes, [&](const auto& lane) { return absent(lane, block.tensor); }))
      std::ranges::fill(sums.subspan(block.begin, block.size()), -0.0F);
  }
  if (!lanes.empty()) compute::sum_slice(layout, lanes, blocks, sums);
}

BucketReducer::BucketReducer(const comm::Group& group, const model::FlatLayout& layout, std::size_t bucket_bytes,
                             std::shared_ptr<GradientCodec> codec)
    : group_(group),
      layout_(layout),
      buckets_(plan_buckets(layout, bucket_bytes)),
      late_buckets_(plan_buckets(layout, bucket_bytes, false)),
      codec_(std::move(codec)),
      memory_(group_.share(layout.size() * sizeof(float))) {
}

std::vector<std::size_t> BucketReducer::late_buckets_of(std::span<const std::uint8_t> marks) const {
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < late_buckets_.size(); ++index) {
    const compute::BlockRange blocks = late_buckets_[index].blocks;
    for (std::size_t block = blocks.first; block < blocks.last; ++block) {
      if (marks[layout_.blocks()[block].tensor] == 0) continue;
      found.push_back(buckets_.size() + index);
      break;
    }
  }
  return found;
}

void BucketReducer::reduce(std::size_t index, const Deadline& deadline) {
  const Bucket& place = bucket(index);
  codec_->all_reduce(group_, index, values().subspan(place.begin, place.end - place.begin), deadline);
}

}  // namespace muster::strategies
