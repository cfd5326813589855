// The peers' own all-reduce, for `muster bench collectives` alone: training never uses them, because the order in which
// they add is theirs and changes with their version, the number of ranks and the length.
//
// No deadline: they block until every rank has called.
#pragma once

#include <span>

namespace muster::comm {

class MpiRuntime;

// MPI_Allreduce in place over all ranks of the world, sum.
void native_mpi_all_reduce(MpiRuntime& runtime, std::span<float> data);

}  // namespace muster::comm
