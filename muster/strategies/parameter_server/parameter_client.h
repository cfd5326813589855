// What programs do with parameter servers: push, pull and wait, of parameters by name and of rows by key.
//
// A push is applied on the server as it comes, once, whatever is lost on the way: by the plan's optimizer or by an
// update of the program's own (ServerOptions::update). Calls start at once, to all servers that have a part in them,
// and are over with wait(); a client's calls of the same parameters or keys take effect in the order in which they were
// made. Servers in threads: local_servers.h; in processes: server.h.
//
// Thread safety: one thread. What is given to a call must stay as it is until wait().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "muster/strategies/parameter_server/client_options.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

class ParameterClient {
 public:
  using Ticket = std::uint64_t;
  using Initial = std::function<void(const std::string& name, std::span<float> values)>;

  // Waits until the job has a plan and servers. No part of a call takes longer than `timeout`, which is also how long a
  // server that is lost may take to be replaced; but where somebody watches the servers (ClientOptions::watched), and
  // replaces or ends who does not get on, they may take as long as they need. Throws kTimeout; kInvalidInput
  // (plan.separate_tensors is not set).
  explicit ParameterClient(ClientOptions options, std::chrono::nanoseconds timeout = std::chrono::seconds(60));
  ~ParameterClient();
  ParameterClient(const ParameterClient&) = delete;
  ParameterClient& operator=(const ParameterClient&) = delete;

  const ServerPlan& plan() const;

  // Once in a job, by one client, while no call is under way: parameters as `initial` leaves them, which finds zeros,
  // and tables without rows. Others' calls wait for it.
  void fill(const Initial& initial = {});

  // A checkpoint of everything that the servers have: parameters, optimizer state, tables, what was applied. By one
  // client, while nobody pushes. Whole or not there: `folder` must not be there yet. Throws kInvalidInput, kIo,
  // kResource, and what wait() throws; nothing is left then.
  void save(const std::filesystem::path& folder);
  // Instead of fill(), in a job with the same plan. The number of servers may be another. Throws kNotFound, kDamaged
  // (names what is missing), kMismatch (of another plan).
  void load(const std::filesystem::path& folder);

  // Names are those of plan().layout and plan().tables: throws kInvalidInput for another, or for a wrong length.
  // Of pulls `to` and `rows` are complete after wait().
  Ticket push(const std::string& name, std::span<const float> gradient, double rate);
  Ticket pull(const std::string& name, std::span<float> to);
  // Both, part by part: faster than one after the other.
  Ticket push_pull(const std::string& name, std::span<const float> gradient, double rate, std::span<float> to);

  // One row of gradients for each key. A key that comes twice is pushed once, with the sum. `step` is the job's, in
  // which tables with evict_after count.
  Ticket push_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<const float> gradients,
                   double rate, std::uint64_t step = 0);
  // One row for each key, again if it comes twice.
  Ticket pull_rows(const std::string& table, std::span<const std::int64_t> keys, std::span<float> rows);

  // Until the call has taken effect. Throws kTimeout, kMismatch (refused, with the server's reason), and what the
  // interruption throws; whether a push took effect is not known then, and later calls do not depend on it.
  void wait(Ticket ticket);

 private:
  class Core;

  const std::unique_ptr<Core> core_;
};

}  // namespace muster::strategies
