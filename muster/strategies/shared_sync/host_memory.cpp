#include "muster/strategies/shared_sync/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::strategies {
namespace {

// Hands out consecutive aligned parts. Run once without memory to learn the size, once with it to place the parts.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <typename T>
  std::span<T> take(std::size_t count) {
    const std::uint64_t begin = used_;
    used_ += (count * sizeof(T) + 63) / 64 * 64;
    return base_ == nullptr ? std::span<T>() : std::span<T>(reinterpret_cast<T*>(base_ + begin), count);
  }
  std::uint64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::uint64_t used_ = 0;
};

}  // namespace

HostMemory::HostMemory(const StrategyOptions& options) : lanes_(options.lanes) {
  const std::size_t floats = options.layout.size();
  const std::size_t tensors = options.layout.tensors().size();
  const auto carve = [&](std::byte* base) {
    Carver carver(base);
    for (std::size_t index = 0; index < 2; ++index) {
      versions_[index].parameters = carver.take<float>(floats);
      for (int slot = 0; slot < options.slots; ++slot) {
        versions_[index].state[static_cast<std::size_t>(slot)] = carver.take<float>(floats);
      }
      versions_[index].updates = carver.take<std::uint64_t>(tensors);
      buffers_[index] = carver.take<std::byte>(options.buffers.bytes);
    }
    for (compute::LaneArea& lane : lanes_) {
      lane.gradient = carver.take<float>(floats);
      lane.present = carver.take<std::uint8_t>(tensors);
      lane.buffers = carver.take<std::byte>(options.buffers.bytes);
    }
    return carver.used();
  };
  bytes_ = carve(nullptr);
  base_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base_ == MAP_FAILED) {
    throw Error(ErrorKind::kResource,
                fmt::format("{} for the model's state cannot be had ({})", human_bytes(bytes_), std::strerror(errno)),
                {}, "Use fewer lanes, a smaller model or an optimizer with less state.");
  }
  // Updates stream over the whole mapping each step; huge pages save most of their address translations. Only a wish.
  ::madvise(base_, bytes_, MADV_HUGEPAGE);
  carve(static_cast<std::byte*>(base_));
}

HostMemory::~HostMemory() {
  ::munmap(base_, bytes_);
}

}  // namespace muster::strategies
