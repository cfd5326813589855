// The first line of a program: its place among the workers, and the threads it computes with. The rest of a worker is
// in worker_place.cpp (how it comes to the others) and gradients.cpp (loops of one's own).
#include "muster/trainer/worker.h"

#include "muster/compute/threads.h"
#include "muster/trainer/worker_place.h"

namespace muster::trainer {

Worker join(int /*argc*/, char** /*argv*/) {
  const launch::World world = launch::detect_world();
  // Libraries count cores by themselves, and see fewer under some launchers: bits would depend on who started us.
  compute::set_threads(world.threads);
  return Worker(connect_worker(world));
}

}  // namespace muster::trainer
