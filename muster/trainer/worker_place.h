// A worker as the parts of Muster see it: what its launcher said of it, and how it comes to those it trains with. No
// torch here; not installed.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "muster/comm/group.h"
#include "muster/launch/environment.h"
#include "muster/strategies/membership.h"
#include "muster/strategies/parameter_server/own_update.h"

namespace muster::trainer {

// Workers as a group for good: the job ends when one of them is lost.
struct FixedWorkers {
  comm::Group group{};
  std::shared_ptr<strategies::Membership> met{};  // on several hosts; keeps this worker's place among them
};
// Those under a supervisor, from now on. On several hosts it returns when the workers of all hosts have come here.
FixedWorkers connect_for_good(const strategies::Supervised& supervised);

// What a session of a worker under a supervisor is told. REQUIRES: world.arena is not empty.
strategies::Supervised supervised_worker(const launch::World& world);

class WorkerPlace {
 public:
  WorkerPlace(launch::World world, comm::Group group);
  // Under a supervisor: connected when group() is first called.
  WorkerPlace(launch::World world, strategies::Supervised supervised);

  // As Worker has them.
  int rank();
  int size();
  bool is_first() const { return world_.rank == 0 && (world_.cluster.empty() || world_.host == control::kFirstHost); }
  comm::Group group();
  // For what workers do together without a session.
  void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  Deadline deadline() const { return Deadline::after(timeout_); }
  // For the parameter servers of the program.
  void set_server_update(strategies::OwnUpdate update) { server_update_ = std::move(update); }
  const strategies::OwnUpdate& server_update() const { return server_update_; }
  const launch::World& world() const { return world_; }
  // The folder of the job's run; empty: there is none.
  const std::string& run() const { return world_.run; }

  // How they have met, where they are on several hosts; null elsewhere. As group(), it fixes who they are.
  std::shared_ptr<strategies::Membership> met();
  // What is known of this worker where lost workers are replaced; empty elsewhere.
  const std::optional<strategies::Supervised>& supervised() const { return supervised_; }
  // The same for a session, which then decides who the workers are. Throws kUnsupported on several hosts where group()
  // has done so before, as group() does after this; kInvalidInput the second time. REQUIRES: supervised().
  const strategies::Supervised& give_to_session();

 private:
  const launch::World world_;
  const std::optional<strategies::Supervised> supervised_;
  std::chrono::nanoseconds timeout_ = comm::Group::kDefaultTimeout;
  strategies::OwnUpdate server_update_{};
  std::optional<FixedWorkers> workers_;  // as soon as somebody wanted the group
  bool in_session_ = false;  // on several hosts a host's workers have one arena: that of the session or of the group
};

// As join() (worker.h) does, with its exceptions; `name` is JoinOptions::name.
std::shared_ptr<WorkerPlace> connect_worker(const launch::World& world, const std::string& name = "workers");

}  // namespace muster::trainer
