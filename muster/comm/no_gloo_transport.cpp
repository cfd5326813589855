// The twin of gloo_transport.cpp in a build without Gloo.
#include "muster/base/error.h"
#include "muster/comm/gloo_transport.h"

namespace muster::comm {

bool gloo_available() {
  return false;
}

std::unique_ptr<Transport> make_gloo_transport(const GlooOptions&) {
  throw Error(ErrorKind::kUnsupported, "this build of Muster has no Gloo", {},
              "Install libgloo-dev and build Muster again, or choose another backend.");
}

}  // namespace muster::comm
