#include "muster/model/heap_trace.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

namespace muster::model {
namespace {

constexpr std::size_t kAlignment = 64;  // as torch aligns tensors
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 46;
// What a tensor has beside its data, in the same heap and for as long: its storage, itself, and what autograd knows of
// it; then the node of the graph that made it, which stays until the step is over. In bytes, of LibTorch 1.13 (a node's
// depends on what it saves). They are small, but they are put into the holes that large blocks leave, which are then
// too small for the next.
constexpr std::array<std::size_t, 3> kBeside = {104, 192, 112};
constexpr std::size_t kNode = 400;
// Asking the heap how large it is costs more than a block; smaller ones change little.
constexpr std::uint64_t kLookBytes = 64 << 10;

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Memory = std::unique_ptr<void, Free>;

struct Block {
  Memory data;
  std::array<Memory, kBeside.size()> beside;
};

// Without data when there is no place for it.
Block take_block(std::uint64_t bytes) {
  Block block;
  void* data = nullptr;
  if (::posix_memalign(&data, kAlignment, bytes) != 0) return block;
  block.data.reset(data);
  for (std::size_t i = 0; i < kBeside.size(); ++i)
    block.beside[i].reset(std::malloc(kBeside[i]));
  return block;
}

std::uint64_t heap_size() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.arena + heap.hblkhd;
}

std::uint64_t heap_in_use() {
  const struct mallinfo2 heap = ::mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

}  // namespace

std::optional<HeapTrace> fit_trace(std::span<const HeapEvent> fewer, std::uint64_t fewer_samples,
                                   std::span<const HeapEvent> more, std::uint64_t more_samples) {
  if (fewer.size() != more.size()) return std::nullopt;
  HeapTrace trace(fewer.begin(), fewer.end());
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const HeapEvent& larger = more[i];
    HeapEvent& event = trace[i];
    if (larger.block != event.block || larger.taken != event.taken || larger.fixed_bytes < event.fixed_bytes)
      return std::nullopt;
    event.sample_bytes = (larger.fixed_bytes - event.fixed_bytes) / (more_samples - fewer_samples);
    event.fixed_bytes -= std::min(event.fixed_bytes, event.sample_bytes * fewer_samples);
  }
  return trace;
}

std::uint64_t held_bytes(std::span<const HeapEvent> trace, std::uint64_t samples) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t held = 0;
  std::uint64_t most = 0;
  for (const HeapEvent& event : trace) {
    if (event.taken) {
      sizes.resize(std::max(sizes.size(), event.block + 1));
      held += sizes[event.block] = event.of(samples);
      most = std::max(most, held);
    } else {
      held -= sizes[event.block];
    }
  }
  return most;
}

std::uint64_t heap_bytes(std::span<const HeapEvent> trace, std::uint64_t samples, int rounds) {
  const std::uint64_t held = held_bytes(trace, samples);
  if (held > kAddressSpace) return 0;
  ::malloc_trim(0);
  const std::uint64_t before = heap_in_use();
  std::uint64_t most = 0;
  std::vector<Block> blocks;
  std::vector<Memory> nodes;
  for (int round = 0; round < rounds; ++round) {
    for (const HeapEvent& event : trace) {
      if (!event.taken) {
        blocks[event.block] = Block();
        continue;
      }
      if (blocks.size() <= event.block) blocks.resize(event.block + 1);
      blocks[event.block] = take_block(event.of(samples));
      if (!blocks[event.block].data) return 0;
      nodes.emplace_back(std::malloc(kNode));
      if (event.of(samples) >= kLookBytes) most = std::max(most, heap_size());
    }
    blocks.clear();
    nodes.clear();
  }
  ::malloc_trim(0);
  return std::max(held, most - std::min(most, before));
}

}  // namespace muster::model
