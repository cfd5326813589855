// Copying between private and shared memory. glibc's memcpy uses the processor's string instruction for such lengths,
// which some processors execute twenty times slower than plain vector moves when another core has written the source.
#pragma once

#include <cstddef>

namespace muster::comm {

// As memcpy, but null pointers are fine when there is nothing to copy.
void copy_bytes(void* to, const void* from, std::size_t bytes);

// The same past the caches, without reading what was at `to` before: faster where `to` is a part of something larger
// than they are. What was copied is ordered before every later store of this thread.
void stream_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace muster::comm
