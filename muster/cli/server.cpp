// muster server: a parameter server of a job. Started by muster train and muster run, not by people.
#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/signals.h"
#include "muster/comm/store.h"
#include "muster/launch/environment.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "muster/strategies/parameter_server/server.h"

namespace muster::cli {

void add_server(CLI::App& app) {
  CLI::App* command = app.add_subcommand("server", "A parameter server of a job; muster train starts it.");
  command->group("");  // not in the list of commands
  command->callback([] {
    const launch::World world = launch::detect_world();
    if (world.store.empty())
      throw Error(ErrorKind::kInvalidInput, "a parameter server belongs to a job", {},
                  "Set parallel.strategy = \"parameter_server\" and parallel.servers in a job file, and start muster "
                  "train.");
    strategies::ServerOptions options;
    options.number = static_cast<std::uint32_t>(world.rank);
    options.attempt = static_cast<std::uint32_t>(world.attempt);
    options.store = comm::make_file_store(world.store);
    options.tell = [](const std::string& message) { fmt::print(stderr, "muster: {}\n", message); };
    // The plan says how calls travel; the job's first worker leaves it.
    const Deadline deadline = Deadline::after(options.patience);
    const strategies::ServerPlan plan = strategies::get_plan(*options.store, deadline);
    const strategies::JobTransport transport = strategies::job_transport(*options.store, plan, deadline);
    options.make_inbox = transport.make_inbox;
    options.connect = transport.connect;
    strategies::Server(std::move(options)).run();
  });
}

}  // namespace muster::cli
