// The twin of native_gloo.cpp for builds without Gloo:
// making one says what is missing and how to get it.
#include "muster/base/error.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/native_collectives.h"

namespace muster::comm {

struct NativeGloo::State {};

NativeGloo::NativeGloo(int, int, const std::shared_ptr<Store>&, const Deadline&) {
  const MissingGloo missing = *missing_gloo();
  throw Error(ErrorKind::kUnsupported, "this build of Muster has no Gloo: " + missing.reason, {}, missing.remedy);
}
NativeGloo::~NativeGloo() = default;
void NativeGloo::all_reduce(std::span<float>) {
}

}  // namespace muster::comm
