#include "muster/base/version.h"

namespace muster {

std::string version() {
  return MUSTER_VERSION;
}

}  // namespace muster
