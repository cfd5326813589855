// Plain vector moves with prefetching, for blocks that another core has just written. The streaming form goes around
// the caches, for what nobody reads soon.
#include "muster/comm/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "muster/base/kernel.h"

namespace muster::comm {
namespace {

constexpr std::size_t kBlock = 256;
// Far enough ahead to hide the way to another core's cache: measured best between 4 and 16 lines.
constexpr std::size_t kAhead = 512;

// Unaligned 32-byte moves; the compiler splits them where the processor has 16.
typedef std::uint64_t Chunk __attribute__((vector_size(32), aligned(1), may_alias));

MUSTER_KERNEL void copy_blocks(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kBlock) {
    for (std::size_t line = 0; line < kBlock; line += 64)
      __builtin_prefetch(from + i + kAhead + line);
    for (std::size_t j = 0; j < kBlock; j += sizeof(Chunk))
      *reinterpret_cast<Chunk*>(to + i + j) = *reinterpret_cast<const Chunk*>(from + i + j);
  }
}

#if defined(__SSE2__)
constexpr std::size_t kLine = 64;

// REQUIRES: `to` is at the beginning of a line.
MUSTER_KERNEL void stream_blocks(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += kBlock) {
    for (std::size_t line = 0; line < kBlock; line += kLine)
      __builtin_prefetch(from + i + kAhead + line);
    for (std::size_t j = 0; j < kBlock; j += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + j),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + j)));
  }
}
#endif

}  // namespace

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t blocks = bytes / kBlock * kBlock;
  copy_blocks(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), blocks);
  std::memcpy(static_cast<std::byte*>(to) + blocks, static_cast<const std::byte*>(from) + blocks, bytes - blocks);
}

void stream_bytes(void* to, const void* from, std::size_t bytes) {
#if defined(__SSE2__)
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const std::size_t before_line = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = std::min(bytes, before_line);
  const std::size_t blocks = (bytes - head) / kBlock * kBlock;
  copy_bytes(target, source, head);
  stream_blocks(target + head, source + head, blocks);
  _mm_sfence();
  copy_bytes(target + head + blocks, source + head + blocks, bytes - head - blocks);
#else
  copy_bytes(to, from, bytes);
#endif
}

}  // namespace muster::comm
