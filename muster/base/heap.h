// How this process's heap treats memory that was given back.
#pragma once

namespace muster {

// Keeps it for the next step of training. By default glibc returns the memory of large tensors to the kernel and gets
// it back page by page, at every step: measured, up to a sixth of the time. For the whole process; may be called again.
void keep_freed_memory();

}  // namespace muster
