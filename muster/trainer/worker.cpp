#include "muster/trainer/worker.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/comm/connect.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/network_backend.h"
#include "muster/compute/threads.h"

namespace muster::trainer {

namespace {

// Whoever started the processes sees at once when one ends; what a program does before it comes here nobody knows.
constexpr std::chrono::hours kConnectTimeout{1};

}  // namespace

comm::Group connect_for_good(const strategies::Supervised& supervised) {
  // The supervisor looks for this when a worker is lost: it cannot be replaced.
  supervised.store->set(launch::kFixedKey, "1");
  comm::GroupOptions options;
  options.rank = supervised.seat;
  options.size = supervised.seats;
  options.name = "workers";
  options.store = supervised.store;
  options.connect_timeout = kConnectTimeout;
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
    return {world, comm::make_group(options)};
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
  const launch::World world = launch::detect_world();
  // Libraries count cores by themselves, and see fewer under some launchers: bits would depend on who started us.
  compute::set_threads(world.threads);
  return connect_worker(world);
}

}  // namespace muster::trainer
