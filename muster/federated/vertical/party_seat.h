// A party's seat: the one process that is this party, and the secret by which the label holder knows it again.
//
// Both are the file NAME.seat of the state folder: locked (flock) for as long as the process lives, and with a number
// that was drawn when it was made. So a second process on one folder is refused at once, who was killed gets its place
// back at once, and somebody else of the same name does not. Thread safety: one thread at a time. No torch here.
#pragma once

#include <filesystem>
#include <string>

#include "muster/base/files.h"

namespace muster::federated {

class PartySeat {
 public:
  // Makes the folder, for its owner alone. Throws Error{kMismatch} when another process has it, kIo, kResource.
  PartySeat(const std::filesystem::path& state, const std::string& name);

  // 32 hexadecimal digits.
  const std::string& secret() const { return secret_; }

 private:
  FileDescriptor file_;
  std::string secret_;
};

}  // namespace muster::federated
