// glibc gives large blocks back to the kernel at once, and a training step takes the same blocks again and again:
// zeroing their pages would be a good part of a small step.
#include "muster/base/heap.h"

#include <malloc.h>

#include <limits>

namespace muster {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargest = 32 << 20;  // that glibc takes: larger blocks are always the kernel's
  ::mallopt(M_MMAP_THRESHOLD, kLargest);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace muster
