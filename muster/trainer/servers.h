// Parameter servers of a program: processes that hold parameters and embedding tables, beside the workers.
//
//   auto worker = muster::join(argc, argv);
//   muster::ServerPlan plan;
//   plan.layout = muster::FlatLayout({{"weights", {1000}}});
//   muster::Servers servers(worker, plan);
//   muster::ParameterClient& client = servers.client();
//   client.wait(client.push_pull("weights", gradient, 0.01, weights));
//
// Under `muster run -n 4 --servers 2 ./my_program` two more processes of the program serve (in join()); started alone
// the program has its servers as threads of its own. Every worker makes the same plan, which is compared. A worker that
// is lost is started again from the beginning, with what the servers have by then, unless the program makes a group of
// its own (worker.group()). A server that is lost is replaced; without copies (--copies) its part is lost with it, and
// the job ends.
//
// Thread safety: one thread. No torch here.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/strategies/parameter_server/local_servers.h"
#include "muster/strategies/parameter_server/parameter_client.h"
#include "muster/trainer/worker.h"

namespace muster::trainer {

class Servers {
 public:
  // Every worker calls it, once. The first one's `initial` gives the parameters their first values, empty: zeros; calls
  // of the others wait for it. Of the plan workers, servers, copies and separate_tensors are filled in. Throws
  // kInvalidInput (several workers, and no servers), kMismatch naming what another worker's plan says otherwise,
  // kTimeout.
  Servers(const Worker& worker, strategies::ServerPlan plan, const strategies::ParameterClient::Initial& initial = {});
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  // As barrier(), unless an exception is under way: one that is lost while others have ended could not be replaced.
  ~Servers();

  strategies::ParameterClient& client() { return *client_; }

  // Until every worker has been here as often as this one. One that is lost is waited for: its successor counts from
  // the beginning, and finds those behind it passed. Throws kPeerLost when nobody replaces workers any more.
  void barrier();

 private:
  std::unique_ptr<strategies::LocalServers> local_;  // of a program that runs alone
  std::shared_ptr<comm::Store> store_;
  const std::shared_ptr<WorkerPlace> place_;
  std::unique_ptr<strategies::ParameterClient> client_;
  const int exceptions_;  // under way when this was made
  std::uint64_t barriers_ = 0;
};

}  // namespace muster::trainer
