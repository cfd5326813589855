// Who writes a run's files: one process at a time, for as long as it lives and holds this. No torch here.
//
// The lock is the kernel's, on the run's job.toml: it is gone with its holder however that ends, and leaves no file.
// Where the file system has no locks nobody is kept out. Thread safety: one thread at a time.
#pragma once

#include <filesystem>

#include "muster/base/deadline.h"
#include "muster/base/files.h"

namespace muster::trainer {

class RunLock {
 public:
  // Of a folder with a job.toml. Waits until `deadline` for another process that holds it: one that is just dying.
  // Throws kMismatch when it is still held then, kNotFound or kIo.
  RunLock(const std::filesystem::path& run, const Deadline& deadline);

 private:
  FileDescriptor descriptor_;
};

}  // namespace muster::trainer
