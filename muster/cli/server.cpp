// muster server: a parameter server of a job. Started by muster train, not by people; servers of a user's program are
// that program (trainer/servers.h).
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/launch/environment.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/parameter_server/server_process.h"

namespace muster::cli {

void add_server(CLI::App& app) {
  CLI::App* command = app.add_subcommand("server", "A parameter server of a job; muster train starts it.");
  command->callback([] {
    const launch::World world = launch::detect_world();
    if (world.store.empty())
      throw Error(
          ErrorKind::kInvalidInput, "a parameter server belongs to a job", {},
          fmt::format("Set parallel.strategy = \"{}\" and parallel.servers in a job file, and start muster train.",
                      strategies::ParameterServer::kName));
    strategies::serve_job(world);
  });
}

}  // namespace muster::cli
