// What is where in the host arena: the parts of a version and of a lane's area.
//
//   version   parameters, optimizer state, updates per tensor, buffers; and the step's records and norms per block,
//   which
//             every worker writes for its own blocks and reads of all
//   lane      gradient, marks of tensors that have one, buffers, what the lane reports beside them, and the passage:
//             what workers that compute the lane together hand to each other
// Every part is aligned to 64 bytes. Pure: the same options give the same places in every process.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "muster/compute/lane_area.h"
#include "muster/compute/slice_update.h"
#include "muster/strategies/strategy.h"

namespace muster::strategies {

// The parts of one version, as spans of its memory.
struct HostVersion {
  compute::Version state;
  std::span<std::byte> buffers;
  std::span<compute::BlockSum> records;
  std::span<compute::Norms> norms;
};

struct HostLane {
  compute::LaneArea area;
  LaneResult* result = nullptr;
  std::span<std::byte> passage{};
};

// REQUIRES, of all: `memory` is as long as the sizes say, and aligned to 64 bytes.
std::size_t version_bytes(const StrategyOptions& options);
std::size_t lane_bytes(const StrategyOptions& options);
HostVersion carve_version(const StrategyOptions& options, std::span<std::byte> memory);
HostLane carve_lane(const StrategyOptions& options, std::span<std::byte> memory);

// The blocks that member `index` of `members` updates: consecutive, and about as many floats for each.
compute::BlockRange slice_of(const model::FlatLayout& layout, std::size_t index, std::size_t members);

}  // namespace muster::strategies
