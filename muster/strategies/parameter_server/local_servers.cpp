// In the order in which they need each other: the plan, the servers, the first map, the first parameters. A store in
// memory takes the place of the job's folder.
#include "muster/strategies/parameter_server/local_servers.h"

#include <chrono>
#include <deque>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/strategies/parameter_server/server_thread.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::seconds kStartTimeout{60};

}  // namespace

struct LocalServers::Threads {
  std::deque<ServerThread> servers;
};

LocalServers::LocalServers(ServerPlan plan, LocalServersOptions options)
    : store_(comm::make_memory_store()), threads_(std::make_unique<Threads>()) {
  if (plan.copies < 1 || plan.copies > plan.servers || plan.workers < 1)
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("{} copies of every chunk on {} servers, {} workers", plan.copies, plan.servers, plan.workers), {},
        "Use as many servers as copies, or more, and at least one worker.");
  if (plan.rules.empty()) plan.rules.resize(plan.layout.tensors().size());
  put_plan(*store_, plan);
  for (std::uint32_t number = 0; number < plan.servers; ++number)
    threads_->servers.emplace_back(ServerOptions{.number = number, .store = store_, .update = options.update});
  put_first_map(*store_, plan, Deadline::after(kStartTimeout));
  ParameterClient({.number = 0, .store = store_}).fill(options.initial);
}

LocalServers::~LocalServers() = default;

}  // namespace muster::strategies
