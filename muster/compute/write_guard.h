// Says what happened when a program writes to memory that it may only read: the parameters that a session holds, which
// all workers share. Without it such a program would end by SIGSEGV without a word.
//
// The handler only speaks, with what is safe in a signal handler: then whatever was there before it (the default
// action, a debugger's or a sanitizer's handler) has its turn. It is the process's, and is installed with the first
// guard. Thread safety: guards may be made and destroyed by any thread. No torch here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace muster::compute {

struct GuardedRange {
  std::span<const std::byte> memory;
  std::string name;  // of the parameter that is there
};

class WriteGuard {
 public:
  explicit WriteGuard(std::vector<GuardedRange> ranges);
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;
  ~WriteGuard();

 private:
  const std::unique_ptr<const std::vector<GuardedRange>> ranges_;
};

}  // namespace muster::compute
