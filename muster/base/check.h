// MUSTER_CHECK: an invariant of Muster's own. A broken one means that the program is wrong, so it stops at
// once and says where; it is never used for what input, disks or peers can do (error.h).
#pragma once

#include <string_view>

namespace muster {

// Prints "file:line: check failed: condition: message" to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view message);

}  // namespace muster

#define MUSTER_CHECK(condition, message)                               \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::muster::check_failed(__FILE__, __LINE__, #condition, message); \
  } while (false)
