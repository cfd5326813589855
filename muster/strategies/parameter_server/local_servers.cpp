#include "muster/strategies/parameter_server/local_servers.h"

#include <chrono>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::seconds kStartTimeout{60};

}  // namespace

LocalServers::LocalServers(ServerPlan plan, LocalServersOptions options) : store_(comm::make_memory_store()) {
  if (plan.copies < 1 || plan.copies > plan.servers || plan.workers < 1)
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("{} copies of every chunk on {} servers, {} workers", plan.copies, plan.servers, plan.workers), {},
        "Use as many servers as copies, or more, and at least one worker.");
  if (plan.rules.empty()) plan.rules.resize(plan.layout.tensors().size());
  put_plan(*store_, plan);
  for (std::uint32_t number = 0; number < plan.servers; ++number)
    servers_.emplace_back(ServerOptions{.number = number, .store = store_, .update = options.update});
  put_first_map(*store_, plan, Deadline::after(kStartTimeout));
  ParameterClient({.number = 0, .store = store_}).fill(options.initial);
}

}  // namespace muster::strategies
