// Fusion buckets: the flat gradient of a worker in few long pieces, each summed over all workers in one call.
//
// A bucket is a range of consecutive whole blocks, all of tensors that train from the start or none of them. The latter
// are late buckets: sent only in steps in which some worker has a gradient of one of their tensors, because it was
// unfrozen. Buckets of each kind stand in flat order, which is roughly the order in which backward finishes its
// tensors: a bucket may be summed and reduced as soon as the lanes of this worker have all its tensors, while backward
// goes on. Workers must reduce the buckets in the same order. The memory is shared with the group (Group::share), so
// that on one host nothing is copied. Thread safety: one thread, and no other call of the group at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/group.h"
#include "muster/compute/slice_update.h"
#include "muster/model/flat_layout.h"

namespace muster::strategies {

struct Bucket {
  compute::BlockRange blocks;
  std::uint64_t begin = 0;  // flat positions, with the padding between its tensors
  std::uint64_t end = 0;
};

// The buckets of a layout's tensors that train from the start, or of the others: as many blocks as fit into `bytes`, at
// least one. Pure.
std::vector<Bucket> plan_buckets(const model::FlatLayout& layout, std::size_t bytes, bool trainable = true);

// The hook for compression: how the workers' parts of a bucket become their sum. A codec belongs to one strategy of one
// worker; it may keep a residual for each bucket. It sees the part of a tensor for which this worker has no gradient as
// negative zeros, the one value that changes no sum.
class GradientCodec {
 public:
  virtual ~GradientCodec() = default;

  // Replaces `values`, this worker's part of bucket `bucket`, by the sum over all workers, or what comes near it. Every
  // worker must end with the same bits. Called once a bucket and step, at most. Throws as the group's calls.
  virtual void all_reduce(comm::Group& group, std::size_t bucket, std::span<float> values,
                          const Deadline& deadline) = 0;

  // The step whose buckets it has reduced is committed: only now do its residuals become those of the next step. A step
  // that is not committed is done again from the old ones.
  virtual void commit() {}
};

// The default: the group's own sum, by its tree over ranks.
class PlainCodec final : public GradientCodec {
 public:
  void all_reduce(comm::Group& group, std::size_t bucket, std::span<float> values, const Deadline& deadline) override;
};

// Tree sums of `lanes` for each of the blocks, at their places in `sums` (flat). A tensor that no lane has becomes
// negative zeros: x + -0 is x for every x, so that such a worker is absent from the sum over workers, bit by bit.
// A single lane may stand in `sums` itself.
void sum_lanes(const model::FlatLayout& layout, std::span<const compute::LaneGradient> lanes,
               compute::BlockRange blocks, std::span<float> sums);

class BucketReducer {
 public:
  static constexpr std::size_t kBucketBytes = std::size_t{4} << 20;

  // Buckets of so many bytes, at least a block in each. Every rank must construct it, with the same size and layout,
  // which must outlive it. Throws as Group::share.
  BucketReducer(const comm::Group& group, const model::FlatLayout& layout, std::size_t bucket_bytes = kBucketBytes,
                std::shared_ptr<GradientCodec> codec = std::make_shared<PlainCodec>());

  const std::vector<Bucket>& buckets() const { return buckets_; }
  // Of these, or of the late ones, whose numbers follow.
  const Bucket& bucket(std::size_t index) const {
    return index < buckets_.size() ? buckets_[index] : late_buckets_[index - buckets_.size()];
  }
  // The numbers of the late buckets with a tensor that is marked. Every worker must give the same marks.
  std::vector<std::size_t> late_buckets_of(std::span<const std::uint8_t> marks) const;
  // The flat array that the buckets are parts of: zeros at first.
  std::span<float> values() const { return memory_.as<float>(); }

  // Replaces bucket(index) of values() by the sum over all workers.
  void reduce(std::size_t index, const Deadline& deadline);
  void commit() { codec_->commit(); }

 private:
  comm::Group group_;
  const model::FlatLayout& layout_;
  const std::vector<Bucket> buckets_;
  const std::vector<Bucket> late_buckets_;
  const std::shared_ptr<GradientCodec> codec_;
  const comm::SharedArray memory_;
};

}  // namespace muster::strategies
