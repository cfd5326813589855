// The blocks of memory that a computation takes and gives back, in order, and what the heap makes of them.
//
// The heap holds more than the tensors in it: glibc's posix_memalign, by which torch takes them, asks for a little more
// than it needs and so cannot use again a hole that a tensor of the same size has left, and small objects are put into
// the holes of large ones. How much that is depends on the order and the sizes, so the order is kept and replayed; no
// page of the large blocks is touched. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muster::model {

// One block that is taken or given back.
struct HeapEvent {
  std::size_t block = 0;           // its number, in the order in which blocks are taken
  bool taken = false;              // false: given back
  std::uint64_t fixed_bytes = 0;   // of a block that is taken
  std::uint64_t sample_bytes = 0;  // and so much for each sample
  std::uint64_t of(std::uint64_t samples) const { return fixed_bytes + sample_bytes * samples; }
};

using HeapTrace = std::vector<HeapEvent>;

// The trace for any number of samples, from what was seen with two numbers of them: `fewer` and `more` have the bytes
// of their blocks in fixed_bytes. Empty if they differ in more than sizes, or a block shrinks with the samples.
std::optional<HeapTrace> fit_trace(std::span<const HeapEvent> fewer, std::uint64_t fewer_samples,
                                   std::span<const HeapEvent> more, std::uint64_t more_samples);

// The most that the blocks take at a time, if nothing were lost between them.
std::uint64_t held_bytes(std::span<const HeapEvent> trace, std::uint64_t samples);

// What this process's heap would grow to with the trace done `rounds` times; at least held_bytes(). Blocks that are
// never given back are so at the end of a round. 0 when the address space has no place for them. REQUIRES: nobody else
// takes much memory meanwhile.
std::uint64_t heap_bytes(std::span<const HeapEvent> trace, std::uint64_t samples, int rounds);

}  // namespace muster::model
