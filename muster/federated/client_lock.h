// Who is a client on this machine: one process at a time under a name. Two would spend one privacy budget, and write
// over what the other keeps from round to round.
//
// The lock is the kernel's (flock), on a file NAME.lock beside what the client keeps: it is gone with its holder,
// however that ends, and the file stays. Where the file system has no locks nobody is kept out. Thread safety: one
// thread. No torch here.
#pragma once

#include <filesystem>
#include <string>

#include "muster/base/files.h"

namespace muster::federated {

class ClientLock {
 public:
  // Makes the folder if it is not there. Throws at once Error{kMismatch} when another process is that client; kIo,
  // kResource. REQUIRES: is_client_name(name).
  ClientLock(const std::filesystem::path& folder, const std::string& name);

 private:
  FileDescriptor descriptor_;
};

}  // namespace muster::federated
