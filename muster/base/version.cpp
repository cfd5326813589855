// The only source that depends on the version:
// a new one compiles this file and no other.
#include "muster/base/version.h"

namespace muster {

std::string version() {
  return MUSTER_VERSION;
}

}  // namespace muster
