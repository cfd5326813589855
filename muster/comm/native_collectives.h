// The peers' own collectives, for `muster bench collectives` alone: training never uses them, because the order in
// which they add is theirs and changes with their version, the number of ranks and the length.
//
// Of floats, summed. No deadline: they block until every rank has called.
#pragma once

#include <memory>
#include <span>

#include "muster/base/deadline.h"
#include "muster/comm/call.h"
#include "muster/comm/store.h"

namespace muster::comm {

class MpiRuntime;

// MPI's own operation over all ranks of the world. The sizes are those of Group's: `output` alone for all_reduce and
// broadcast (root 0), which are in place. Throws kUnsupported for an operation that is not one of them.
void native_mpi_collective(MpiRuntime& runtime, Operation operation, std::span<const float> input,
                           std::span<float> output);

// Gloo's own all-reduce, as PyTorch calls it.
class NativeGloo {
 public:
  // Connects on the loopback interface. Throws kUnsupported in a build without Gloo.
  NativeGloo(int rank, int size, const std::shared_ptr<Store>& store, const Deadline& deadline);
  ~NativeGloo();
  NativeGloo(const NativeGloo&) = delete;
  NativeGloo& operator=(const NativeGloo&) = delete;

  void all_reduce(std::span<float> data);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::comm
