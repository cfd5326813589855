// This process as a worker. The first line of a distributed program; started alone it is a world of one.
#pragma once

#include "muster/comm/group.h"
#include "muster/launch/environment.h"

namespace muster::trainer {

// A small value; copies are the same worker.
class Worker {
 public:
  Worker() = default;  // alone
  Worker(launch::World world, comm::Group group) : world_(std::move(world)), group_(std::move(group)) {}

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  // The one that prints, evaluates and saves.
  bool is_first() const { return world_.rank == 0; }
  // All workers, for collectives of the program's own.
  comm::Group group() const { return group_; }

 private:
  launch::World world_;
  comm::Group group_;
};

// Makes this process a worker and connects it to the others. By `muster run` and `muster train` through the folder they
// name; by mpirun through MPI; by others through a folder that MUSTER_STORE names and all processes share. Throws
// kTimeout and kPeerLost naming a rank; kUnsupported when a launcher started several processes and there is no way to
// connect them: several that know nothing of each other would be wrong silently.
Worker connect_worker(const launch::World& world);

// connect_worker(detect_world()). `argc` and `argv` are main's own.
Worker join(int argc, char** argv);

}  // namespace muster::trainer
