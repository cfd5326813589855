// One carver hands out aligned parts in a fixed order; without memory it only counts, so that sizes and places come
// from the same lines.
#include "muster/strategies/host_layout.h"

#include <algorithm>

namespace muster::strategies {
namespace {

// Hands out consecutive aligned parts; without memory it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  std::span<T> take(std::size_t count) {
    const std::size_t begin = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return base_ == nullptr ? std::span<T>() : std::span<T>(reinterpret_cast<T*>(base_ + begin), count);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

HostVersion carve(const StrategyOptions& options, Carver& carver) {
  HostVersion version;
  const std::size_t floats = options.layout.size();
  version.state.parameters = carver.take<float>(floats);
  for (int slot = 0; slot < options.slots; ++slot)
    version.state.state[static_cast<std::size_t>(slot)] = carver.take<float>(floats);
  version.state.updates = carver.take<std::uint64_t>(options.layout.tensors().size());
  version.buffers = carver.take<std::byte>(options.buffers.bytes);
  version.records = carver.take<compute::BlockSum>(options.layout.blocks().size());
  version.norms = carver.take<compute::Norms>(options.layout.blocks().size());
  return version;
}

HostLane carve_lane(const StrategyOptions& options, Carver& carver) {
  HostLane lane;
  lane.area.gradient = carver.take<float>(options.layout.size());
  lane.area.present = carver.take<std::uint8_t>(options.layout.tensors().size());
  lane.area.buffers = carver.take<std::byte>(options.buffers.bytes);
  lane.result = carver.take<LaneResult>(1).data();
  lane.passage = carver.take<std::byte>(options.passage_bytes);
  return lane;
}

}  // namespace

std::size_t version_bytes(const StrategyOptions& options) {
  Carver carver(nullptr);
  carve(options, carver);
  return carver.used();
}

std::size_t lane_bytes(const StrategyOptions& options) {
  Carver carver(nullptr);
  carve_lane(options, carver);
  return carver.used();
}

HostVersion carve_version(const StrategyOptions& options, std::span<std::byte> memory) {
  Carver carver(memory.data());
  return carve(options, carver);
}

HostLane carve_lane(const StrategyOptions& options, std::span<std::byte> memory) {
  Carver carver(memory.data());
  return carve_lane(options, carver);
}

compute::BlockRange slice_of(const model::FlatLayout& layout, std::size_t index, std::size_t members) {
  const std::vector<model::Block>& blocks = layout.blocks();
  // The first block that begins at or after a share of the floats.
  const auto border = [&](std::size_t share) {
    const std::uint64_t target = layout.size() * share / members;
    const auto at =
        std::lower_bound(blocks.begin(), blocks.end(), target,
                         [](const model::Block& block, std::uint64_t position) { return block.begin < position; });
    return share == members ? blocks.size() : static_cast<std::size_t>(at - blocks.begin());
  };
  return {border(index), border(index + 1)};
}

}  // namespace muster::strategies
