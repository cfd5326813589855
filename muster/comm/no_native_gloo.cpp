// The twin of native_gloo.cpp for builds without Gloo.
#include "muster/base/error.h"
#include "muster/comm/native_collectives.h"

namespace muster::comm {

struct NativeGloo::State {};

NativeGloo::NativeGloo(int, int, const std::shared_ptr<Store>&, const Deadline&) {
  throw Error(ErrorKind::kUnsupported, "this build has no Gloo", {}, "Install libgloo-dev and build again.");
}
NativeGloo::~NativeGloo() = default;
void NativeGloo::all_reduce(std::span<float>) {
}

}  // namespace muster::comm
