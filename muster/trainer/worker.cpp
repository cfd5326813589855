#include "muster/trainer/worker.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::trainer {

Worker join(int /*argc*/, char** /*argv*/) {
  launch::World world = launch::detect_world();
  if (world.size > 1) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{} started {} processes; this version trains with one worker", world.launcher, world.size),
                {}, "Start one process.");
  }
  return Worker(std::move(world));
}

}  // namespace muster::trainer
