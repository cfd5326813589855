// Bytes are compared, not numbers: a NaN equals itself here, and 0 is not -0. The first difference is named by its
// tensor.
#include "muster/trainer/lane_check.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace muster::trainer {

compute::LaneArea LaneCheck::area() {
  gradient_.assign(layout_.size(), 0.0F);
  present_.assign(layout_.tensors().size(), 0);
  buffers_.assign(buffer_layout_.bytes, std::byte{0});
  return {gradient_, present_, buffers_};
}

std::string LaneCheck::difference(const compute::LaneArea& first) const {
  const auto& tensors = layout_.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (first.present[i] != present_[i])
      return fmt::format("only one of the two has a gradient of {}", tensors[i].name);
    if (first.present[i] == 0) continue;
    for (std::uint64_t at = tensors[i].offset; at < tensors[i].offset + tensors[i].count; ++at) {
      if (std::bit_cast<std::uint32_t>(first.gradient[at]) != std::bit_cast<std::uint32_t>(gradient_[at]))
        return fmt::format("the gradient of {} is {} and {} at element {}", tensors[i].name, first.gradient[at],
                           gradient_[at], at - tensors[i].offset);
    }
  }
  for (const compute::BufferSlot& slot : buffer_layout_.slots) {
    const auto begin = static_cast<std::ptrdiff_t>(slot.offset);
    const auto end = static_cast<std::ptrdiff_t>(slot.offset + slot.bytes);
    if (!std::equal(first.buffers.begin() + begin, first.buffers.begin() + end, buffers_.begin() + begin))
      return fmt::format("buffer {} differs", slot.name);
  }
  return {};
}

}  // namespace muster::trainer
