// An abstract Unix socket that takes connections of its own user and of root only.
//
// Any user of the machine can connect to an abstract socket. Who it is the kernel says before a byte is read, so others
// cost nothing but an accept, and never reach the code that reads requests.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <thread>

#include "muster/base/files.h"

namespace muster::control {

class LocalListener {
 public:
  // Both are called on the listener's own thread; connections do not block.
  struct Callbacks {
    std::function<void(FileDescriptor connection)> connected;
    std::function<void(uid_t user)> refused;
  };

  static constexpr std::size_t kLongestName = 107;

  // Listens under `name` (without the leading zero byte). Throws kIo, kResource. REQUIRES: at most kLongestName bytes.
  LocalListener(const std::string& name, Callbacks callbacks);
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;
  // Nothing is called any more when it returns.
  ~LocalListener();

 private:
  void run();

  const Callbacks callbacks_;
  FileDescriptor socket_;
  FileDescriptor stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace muster::control
