// MPI as a transport: messages between hosts over whatever the machine's MPI library has below it.
//
// Only MPI's non-blocking point-to-point messages are used, all on one private copy of the world communicator. A
// message stream is a (group, slot, sender, receiver); the first message of a stream is preceded by a note that tells
// the receiver which MPI tag the sender chose for it. Splitting and making groups therefore costs nothing and waits for
// nobody, where MPI's own ways (MPI_Comm_split and its like) wait for every rank without a deadline.
//
// There is no progress thread: it would need MPI_THREAD_MULTIPLE, take a core from the training and add a hand-over to
// every message, while our messages complete inside calls that wait for them anyway. Messages move on in test() and
// wait() of any transfer of the process. Waiting polls: at first without pause, then giving the core away, then
// sleeping for short whiles.
//
// RDMA: an Open MPI built with UCX takes it by itself where there is such a network; `mpirun --mca pml ucx` insists on
// it. Nothing changes here.
//
// MPI has no fault tolerance of its own: mpirun ends the whole job when a rank dies. A peer that hangs gives kTimeout,
// abort() gives kPeerLost on every rank that can still be told; after either the process cannot use MPI again and
// should end (the job resumes from its checkpoint). A build without MPI has the same functions, which throw
// kUnsupported. Thread safety: a transport as transport.h says; transports of several threads take turns.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "muster/comm/transport.h"

namespace muster::comm {

// Whether this build has MPI. Does not start it.
bool mpi_available();
// The library's own description, one line, for `muster info`: "Open MPI v4.1.4, ...". Does not start MPI.
std::string mpi_library();

// MPI while it runs in this process, shared by its transports. MPI can be started once in a process, so a program that
// makes groups one after the other holds it meanwhile.
class MpiRuntime;

// Starts MPI, or takes the one that runs already, ours or the program's own. The last owner of ours ends it, which
// waits until every rank does, at most `finalize_timeout`; after a failure, or when that time passes, MPI is left as it
// is, and mpirun reports the job as failed. MPI's own start waits for all ranks without a deadline; mpirun ends it when
// one of them dies. Throws kUnsupported: no MPI in this build, MPI was ended before, or its threads are unusable.
std::shared_ptr<MpiRuntime> start_mpi(std::chrono::nanoseconds finalize_timeout = std::chrono::seconds(60));

struct MpiWorld {
  int rank = 0;
  int size = 1;
};
MpiWorld mpi_world(const MpiRuntime& runtime);

// A transport between the world ranks in `members` (ascending new rank), this process among them. Every member calls it
// with the same members and name, and as often. Throws kInvalidInput: not members of this world.
std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiRuntime> runtime, const std::vector<int>& members,
                                              const std::string& name);

}  // namespace muster::comm
