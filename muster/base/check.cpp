// Out of line, so that a check costs its caller a compare and a branch. It writes straight to standard error: whatever
// is broken may be the log itself.
#include "muster/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace muster {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "%s:%d: check failed: %s: %.*s\nThis is a bug in Muster; please report it.\n", file, line,
               condition, static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace muster
