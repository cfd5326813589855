// The order of tensors, their alignment and the size of blocks decide the bits of every reduction: a change here
// changes results, though not checkpoints, which go by names.
#include "muster/model/flat_layout.h"

#include <algorithm>

#include "muster/base/check.h"

namespace muster::model {

FlatLayout::FlatLayout(const std::vector<TensorInfo>& registered) {
  for (auto info = registered.rbegin(); info != registered.rend(); ++info) {
    TensorSlot slot{info->name, info->shape, info->trainable, size_, 1};
    for (const std::int64_t extent : info->shape) {
      MUSTER_CHECK(extent >= 0, "a tensor with a negative extent");
      slot.count *= static_cast<std::uint64_t>(extent);
    }
    const auto tensor = static_cast<std::uint32_t>(tensors_.size());
    for (std::uint64_t begin = 0; begin < slot.count; begin += kBlockFloats) {
      blocks_.push_back({tensor, size_ + begin, size_ + std::min(begin + kBlockFloats, slot.count)});
    }
    parameter_count_ += slot.count;
    size_ += (slot.count + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
    tensors_.push_back(std::move(slot));
  }
}

}  // namespace muster::model
