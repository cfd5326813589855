// This process as a worker. The first line of a distributed program; started alone it is a world of one.
#pragma once

#include "muster/launch/environment.h"

namespace muster::trainer {

class Worker {
 public:
  explicit Worker(launch::World world) : world_(std::move(world)) {}

  int rank() const { return world_.rank; }
  int size() const { return world_.size; }
  // The one that prints, evaluates and saves.
  bool is_first() const { return world_.rank == 0; }

 private:
  launch::World world_;
};

// Finds out how this process was started and makes it a worker. `argc` and `argv` are main's own.
// Throws Error{kUnsupported} when a launcher started several processes: this version trains with one worker, and
// several that know nothing of each other would be wrong silently.
Worker join(int argc, char** argv);

}  // namespace muster::trainer
