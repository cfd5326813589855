// The kernel's random numbers: those that a process makes for itself come twice once it was forked, and hosts that were
// started from one image begin with the same ones.
#include "muster/base/draft_name.h"

#include <sys/random.h>

#include <cstdint>

#include <fmt/format.h>

#include "muster/base/files.h"

namespace muster {

std::string draft_name(std::string_view name) {
  std::uint64_t number = 0;
  while (number == 0) {
    // So few bytes are given at once or not at all.
    if (::getrandom(&number, sizeof number, 0) != sizeof number)
      throw_system_error("gives no random numbers", "the kernel");
  }
  return fmt::format(".{}.{}.tmp", name, number);
}

}  // namespace muster
