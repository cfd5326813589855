// The twin of mpi_transport.cpp for builds without MPI: nothing is available, and whoever asks for it all the same is
// told how to get it.
#include "muster/base/error.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/native_collectives.h"

namespace muster::comm {
namespace {

[[noreturn]] void throw_no_mpi() {
  throw Error(ErrorKind::kUnsupported, "this build of Muster has no MPI", {},
              "Install Open MPI's development files (libopenmpi-dev) and build again, or choose another backend.");
}

}  // namespace

class MpiRuntime {};

bool mpi_available() {
  return false;
}
std::string mpi_library() {
  return "none";
}
std::shared_ptr<MpiRuntime> start_mpi(std::chrono::nanoseconds) {
  throw_no_mpi();
}
MpiWorld mpi_world(const MpiRuntime&) {
  throw_no_mpi();
}
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiRuntime>, const std::vector<int>&,
                                              const std::string&) {
  throw_no_mpi();
}
void native_mpi_collective(MpiRuntime&, Operation, std::span<const float>, std::span<float>) {
  throw_no_mpi();
}

}  // namespace muster::comm
