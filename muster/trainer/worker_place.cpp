// From what the environment says (launch/environment.h) to a group or a supervised worker. A world of one makes no
// connection and touches no file.
#include "muster/trainer/worker_place.h"

#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/comm/checked_transport.h"
#include "muster/comm/connect.h"
#include "muster/comm/mpi_transport.h"
#include "muster/comm/network_backend.h"
#include "muster/control/cluster_store.h"
#include "muster/strategies/members/settled_members.h"
#include "muster/trainer/kernel_agreement.h"

namespace muster::trainer {

namespace {

// Whoever started the processes sees at once when one ends; what a program does before it comes here nobody knows.
constexpr std::chrono::hours kConnectTimeout{1};

}  // namespace

FixedWorkers connect_for_good(const strategies::Supervised& supervised) {
  // The supervisor looks for this when a worker is lost: it cannot be replaced.
  supervised.store->set(launch::kFixedKey, "1");
  if (supervised.host) {
    tell_other_kernels(supervised);
    auto met = std::make_shared<strategies::SettledMembers>(supervised);
    return {met->members().group, met};
  }
  comm::GroupOptions options;
  options.rank = supervised.seat;
  options.size = supervised.seats;
  options.name = "workers";
  options.store = supervised.store;
  options.connect_timeout = kConnectTimeout;
  return {comm::make_group(options), nullptr};
}

std::shared_ptr<WorkerPlace> connect_worker(const launch::World& world, const std::string& name) {
  if (!world.arena.empty()) return std::make_shared<WorkerPlace>(world, supervised_worker(world));
  if (world.size == 1) return std::make_shared<WorkerPlace>(world, comm::Group());
  if (!world.store.empty()) {
    comm::GroupOptions options;
    options.rank = world.rank;
    options.size = world.size;
    options.name = name;
    options.store = comm::make_file_store(world.store);
    return std::make_shared<WorkerPlace>(world, comm::make_group(options));
  }
  if (world.launcher == "mpirun" && comm::mpi_available()) {
    std::vector<int> members(static_cast<std::size_t>(world.size));
    std::iota(members.begin(), members.end(), 0);
    auto transport = comm::with_checksums(comm::make_mpi_transport(comm::start_mpi(), members, name));
    return std::make_shared<WorkerPlace>(world,
                                         comm::Group(std::make_shared<comm::NetworkBackend>(std::move(transport))));
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
  if (!world.cluster.empty())
    supervised.host = strategies::HostPlace{control::open_cluster_store(world.cluster), world.host, world.interface,
                                            world.network == "mpi" ? "mpi" : "auto", world.data};
  return supervised;
}

WorkerPlace::WorkerPlace(launch::World world, comm::Group group)
    : world_(std::move(world)), workers_(FixedWorkers{std::move(group), nullptr}) {
}

WorkerPlace::WorkerPlace(launch::World world, strategies::Supervised supervised)
    : world_(std::move(world)), supervised_(std::move(supervised)) {
}

int WorkerPlace::rank() {
  return world_.cluster.empty() ? world_.rank : group().rank();
}

int WorkerPlace::size() {
  return world_.cluster.empty() ? world_.size : group().size();
}

const strategies::Supervised& WorkerPlace::give_to_session() {
  if (supervised_->host && workers_)
    throw Error(ErrorKind::kUnsupported,
                "the workers of several hosts are a fixed group already, by worker.group(), rank() or size()", {},
                "Make the session first, and ask session.members() for ranks and the group.");
  if (in_session_)
    throw Error(ErrorKind::kInvalidInput,
                "this program has made a session already, and muster run replaces lost workers "
                "of one alone",
                {}, "Train several models as named parts of one session (docs/cpp-api.md#several-models).");
  in_session_ = true;
  return *supervised_;
}

comm::Group WorkerPlace::group() {
  if (in_session_ && supervised_->host)
    throw Error(ErrorKind::kUnsupported, "the workers of several hosts belong to a session, which replaces lost ones",
                {}, "Ask session.members() for ranks and the group.");
  if (!workers_) workers_ = connect_for_good(*supervised_);
  return workers_->group;
}

std::shared_ptr<strategies::Membership> WorkerPlace::met() {
  group();
  return workers_->met;
}

}  // namespace muster::trainer
