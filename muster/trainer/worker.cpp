#include "muster/trainer/worker.h"

#include <filesystem>
#include <numeric>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/comm/connect.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/network_backend.h"

namespace muster::trainer {

comm::Group connect_for_good(const strategies::Supervised& supervised) {
  // The supervisor looks for this when a worker is lost: it cannot be replaced.
  supervised.store->set(launch::kFixedKey, "1");
  comm::GroupOptions options;
  options.rank = supervised.seat;
  options.size = supervised.seats;
  options.name = "workers";
  options.store = supervised.store;
  return comm::make_group(options);
}

Worker connect_worker(const launch::World& world) {
  if (!world.arena.empty()) return {world, supervised_worker(world)};
  if (world.size == 1) return {world, comm::Group()};
  if (!world.store.empty()) {
    comm::GroupOptions options;
    options.rank = world.rank;
    options.size = world.size;
    options.name = "workers";
    options.store = comm::make_file_store(world.store);
    comm::Group group = comm::make_group(options);
    if (world.launcher == "muster") {
      // All have met, in shared memory: nobody needs the folder any more, and a launcher that is killed cannot remove
      // it.
      group.barrier();
      std::error_code ignored;
      if (world.rank == 0) std::filesystem::remove_all(world.store, ignored);
    }
    return {world, group};
  }
  if (world.launcher == "mpirun" && comm::mpi_available()) {
    std::vector<int> members(static_cast<std::size_t>(world.size));
    std::iota(members.begin(), members.end(), 0);
    auto transport = comm::make_mpi_transport(comm::start_mpi(), members, "workers");
    return {world, comm::Group(std::make_shared<comm::NetworkBackend>(std::move(transport)))};
  }
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("{} started {} processes, and they have no way to find each other", world.launcher, world.size), {},
      "Set MUSTER_STORE to an empty folder that all of them share, or use muster run or mpirun.");
}

strategies::Supervised supervised_worker(const launch::World& world) {
  strategies::Supervised supervised;
  supervised.store = comm::make_file_store(world.store);
  supervised.folder = world.store;
  supervised.seat = world.rank;
  supervised.seats = world.size;
  supervised.attempt = world.attempt;
  supervised.founder = world.arena == "found";
  if (world.arena != "found" && world.arena != "join") supervised.arena = world.arena;
  return supervised;
}

Worker join(int /*argc*/, char** /*argv*/) {
  return connect_worker(launch::detect_world());
}

}  // namespace muster::trainer
