// This process as a worker. The first line of a distributed program; started alone it is a world of one.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "muster/comm/group.h"
#include "muster/strategies/parameter_server/own_update.h"

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace muster::trainer {

class WorkerPlace;  // worker_place.h

// A small value; copies are the same worker.
class Worker {
 public:
  Worker();                                             // alone
  explicit Worker(std::shared_ptr<WorkerPlace> place);  // for the parts of Muster

  // Which of all workers this one is. On several hosts that is known when all have met: as group(), these fix who they
  // are.
  int rank() const;
  int size() const;
  // The one that prints, evaluates and saves.
  bool is_first() const;
  // All workers, for collectives of the program's own. Under `muster run` the first call fixes who they are: the job
  // then ends when one of them is lost. A session does not need it.
  comm::Group group() const;

  // For programs that keep their own optimizer and their own DataLoader: every worker trains its own copy of the model,
  // and these lines keep the copies equal. All workers call them, in the same order, with the same model; they wait for
  // each other for JoinOptions::timeout. The promises are weaker than a session's (synchronize.h): every worker must
  // make the same number of steps, the result depends on the number of workers, and nothing is recovered.

  // Gives the first worker's parameters and buffers to all, in place. Once, before training; not needed where all
  // workers seed LibTorch alike before they make the model.
  void broadcast_parameters(torch::nn::Module& module) const;
  // Gives the state of the first worker's optimizer (momentum, moments, counts of steps, options of the groups) to all:
  // where only that one has loaded a checkpoint. Throws kMismatch when another worker's is of other parameters.
  void broadcast_optimizer(torch::optim::Optimizer& optimizer) const;
  // Replaces every gradient by its mean over the workers, in place; between backward() and step(). A gradient that only
  // some workers have counts as zero on the others; one that nobody has stays undefined. A program with several modules
  // calls it for each; a parameter that two of them share may come twice. Throws kMismatch when
  // the workers' parameters differ at the first call for a module, kUnsupported naming a gradient that is not float32
  // on the CPU, else as Group::all_reduce.
  void all_reduce_gradients(torch::nn::Module& module) const;
  // For workers with different numbers of batches: each says at the start of every turn whether it has one more, and
  // goes on for as long as this is true, that is as long as any worker has one. In a turn without a batch it calls
  // all_reduce_gradients(), for each of its modules, and its optimizer's step() all the same; means of that turn are
  // over the workers that have one, whatever gradients the others hold. So all of them make the same steps, as many as
  // the one with the most batches has. Who leaves the loop before that calls uneven(false) after it, as all others do.
  bool uneven(bool has_batch) const;
  // Combines a tensor of all workers, of equal shape and type, in place: a figure, a count. Not for gradients one by
  // one, which is slow. Throws kUnsupported for other types than float, double, half, bfloat16, int32, int64 and uint8,
  // and for tensors that are not on the CPU; else as Group::all_reduce.
  void all_reduce(at::Tensor& tensor, comm::Reduction reduction = comm::Reduction::kAverage) const;
  // Parameters, buffers, the optimizer's state and a number of the program's (its step), in one file in `folder` that
  // takes the place of the one before, whole or not at all. Nobody goes on before it is there. Throws as write (kIo,
  // kResource) on the first worker, which writes, kPeerLost on the others.
  void checkpoint(const std::filesystem::path& folder, torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                  std::uint64_t step) const;
  // Goes on from there: the first worker reads it and all have it, with its number; empty: there is none. Throws
  // kDamaged, kMismatch (of another model or optimizer) on the first worker, kPeerLost on the others.
  std::optional<std::uint64_t> resume(const std::filesystem::path& folder, torch::nn::Module& module,
                                      torch::optim::Optimizer& optimizer) const;
  // Gives worker `root`'s tensor to all, in place; shapes and types are equal. Throws as Group::broadcast.
  void broadcast(at::Tensor& tensor, int root = 0) const;

  // For the parts of Muster: not for programs, and not installed.
  WorkerPlace& place() const { return *place_; }
  const std::shared_ptr<WorkerPlace>& shared_place() const { return place_; }

 private:
  struct Fusion;  // the buffer in which gradients meet

  std::shared_ptr<WorkerPlace> place_;
  std::shared_ptr<Fusion> fusion_;
};

struct JoinOptions {
  // How long the calls of a Worker wait for other workers: longer than anything that one of them does meanwhile, an
  // evaluation on the first one for example. One that dies under `muster run` or mpirun is noticed at once. A session
  // has SessionOptions::step_timeout.
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  // Of these workers, where they find each other through the folder of MUSTER_STORE: a folder serves each name once, so
  // another name lets a job that is started again, or another one, use the same folder. All workers say the same.
  // `muster run --name` is what commands call a job.
  std::string name = "workers";
  // What parameter servers of the program do with a gradient that is pushed, instead of their plan's optimizer
  // (servers.h): processes of this program that are started as servers find it here.
  strategies::OwnUpdate server_update{};
};

// Makes this process a worker and connects it to the others. By `muster run` and `muster train` through the folder they
// name; by mpirun through MPI; by others through a folder that MUSTER_STORE names and all processes share. Throws
// kTimeout and kPeerLost naming a rank; kUnsupported when a launcher started several processes and there is no way to
// connect them: several that know nothing of each other would be wrong silently.
//
// Gives LibTorch and the BLAS the threads that `muster run --threads` or MUSTER_THREADS says, 1 if neither does: by
// themselves they take what they find, and the bits change with it. A session sets its own (SessionOptions::threads).
// `argc` and `argv` are main's own.
//
// A process that `muster run --servers` has started as a parameter server serves in here, and ends in here when the
// workers are done.
Worker join(int argc, char** argv, const JoinOptions& options = {});

}  // namespace muster::trainer
