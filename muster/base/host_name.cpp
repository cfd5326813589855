// As the kernel says; "host" where it says nothing. A name that is cut off
// is good enough for people.
#include "muster/base/host_name.h"

#include <unistd.h>

#include <array>

namespace muster {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name.front() == '\0') return "host";
  return name.data();
}

}  // namespace muster
