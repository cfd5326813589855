// Parameter servers as threads of this process, which is all that a program on one host needs to begin with:
//
//   ServerPlan plan;
//   plan.layout = model::FlatLayout({{"weights", {1000}}});
//   plan.separate_tensors = true;
//   plan.workers = 3;
//   LocalServers servers(plan);
//   ParameterClient client({.number = 0, .store = servers.store()});   // one per thread, numbers 0 .. workers - 1
//
// With nobody who replaces a server, the map of chunks stays as it is.
#pragma once

#include <memory>

#include "muster/comm/store.h"
#include "muster/strategies/parameter_server/own_update.h"
#include "muster/strategies/parameter_server/parameter_client.h"

namespace muster::strategies {

struct LocalServersOptions {
  // Instead of the plan's optimizer; see own_update.h. May be called by several threads at once, for different chunks.
  OwnUpdate update{};
  // The parameters' first values; empty: zeros.
  ParameterClient::Initial initial{};
};

class LocalServers {
 public:
  // Starts plan.servers threads and fills them. Rules that the plan lacks are the default ones. Throws kInvalidInput,
  // kResource, kTimeout.
  explicit LocalServers(ServerPlan plan, LocalServersOptions options = {});

  LocalServers(const LocalServers&) = delete;
  LocalServers& operator=(const LocalServers&) = delete;
  ~LocalServers();

  const std::shared_ptr<comm::Store>& store() const { return store_; }

 private:
  struct Threads;

  const std::shared_ptr<comm::Store> store_;
  const std::unique_ptr<Threads> threads_;
};

}  // namespace muster::strategies
