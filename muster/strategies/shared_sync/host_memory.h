// The memory of one host's training state, in one mapping: two versions of parameters, optimizer state, update counts
// and buffers, and one area per lane. Private to this process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/compute/lane_area.h"
#include "muster/compute/slice_update.h"
#include "muster/strategies/strategy.h"

namespace muster::strategies {

// The parts are 64-byte aligned and zero at first; the spans live as long as the object.
class HostMemory {
 public:
  // Throws Error{kResource} with the number of bytes.
  explicit HostMemory(const StrategyOptions& options);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  compute::Version version(int index) const { return versions_[static_cast<std::size_t>(index)]; }
  std::span<std::byte> buffers(int index) const { return buffers_[static_cast<std::size_t>(index)]; }
  const compute::LaneArea& lane(std::size_t index) const { return lanes_[index]; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::array<compute::Version, 2> versions_;
  std::array<std::span<std::byte>, 2> buffers_;
  std::vector<compute::LaneArea> lanes_;
};

}  // namespace muster::strategies
