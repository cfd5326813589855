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

  // Whether the folder has been removed or renamed since. What cannot be told is not said.
  bool run_is_gone() const;

 private:
  std::filesystem::path run_;
  FileDescriptor descriptor_;
};

// The same for a folder of checkpoints that a program of a user's own has named, on the folder itself: two programs
// that write there would mix what they have trained.
class CheckpointFolderLock {
 public:
  // Makes the folder if it is not there. Waits and throws as above.
  CheckpointFolderLock(std::filesystem::path folder, const Deadline& deadline);
  const std::filesystem::path& folder() const { return folder_; }

 private:
  const std::filesystem::path folder_;
  FileDescriptor descriptor_;
};

}  // namespace muster::trainer
