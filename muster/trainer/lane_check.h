// A lane that is computed once more, to verify it: memory for the second result, and its comparison with the first, bit
// by bit. Thread safety: one thread. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/compute/buffer_layout.h"
#include "muster/compute/lane_area.h"
#include "muster/model/flat_layout.h"

namespace muster::trainer {

class LaneCheck {
 public:
  // Both must outlive it.
  LaneCheck(const model::FlatLayout& layout, const compute::BufferLayout& buffers)
      : layout_(layout), buffer_layout_(buffers) {}

  // Where the second result goes; empty again.
  compute::LaneArea area();
  std::span<std::byte> buffers() { return buffers_; }
  // What the two have not in common, in words: the first tensor and element; empty if they are the same.
  std::string difference(const compute::LaneArea& first) const;

 private:
  const model::FlatLayout& layout_;
  const compute::BufferLayout& buffer_layout_;
  std::vector<float> gradient_;
  std::vector<std::uint8_t> present_;
  std::vector<std::byte> buffers_;
};

}  // namespace muster::trainer
