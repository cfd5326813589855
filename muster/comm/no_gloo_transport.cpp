// The twin of gloo_transport.cpp in a build without Gloo. CMake says why there is none, and that reason is what a job
// is told that asks for it.
#include "muster/base/error.h"
#include "muster/comm/gloo_transport.h"

namespace muster::comm {
namespace {

constexpr bool kTorchCarriesGloo = MUSTER_TORCH_CARRIES_GLOO;

}  // namespace

std::optional<MissingGloo> missing_gloo() {
  if (kTorchCarriesGloo)
    return MissingGloo{
        "its LibTorch carries a Gloo of its own, as that of pip's PyTorch does, and two in one process would clash",
        "Build with a LibTorch that uses libgloo, as Debian's libtorch-dev does, or use MPI: backend \"mpi\" under "
        "mpirun."};
  return MissingGloo{"it was built without libgloo-dev",
                     "Install libgloo-dev and build again, or choose another backend."};
}

std::unique_ptr<Transport> make_gloo_transport(const GlooOptions&) {
  const MissingGloo missing = *missing_gloo();
  throw Error(ErrorKind::kUnsupported, "this build of Muster has no Gloo: " + missing.reason, {}, missing.remedy);
}

}  // namespace muster::comm
