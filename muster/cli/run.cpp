// muster run: N processes of a user's program as the workers of one job.
#include <memory>
#include <string>
#include <vector>

#include "muster/cli/command.h"
#include "muster/cli/workers.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kGrace{30};

struct RunFlags {
  int workers = 1;
  std::vector<std::string> program;
};

}  // namespace

void add_run(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("run", "Start a LibTorch program as several workers on this machine.");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("-n,--workers", flags->workers, "Worker processes")->required()->check(CLI::Range(1, 64));
  command->add_option("program", flags->program, "The program and its arguments")->required();
  command->prefix_command();
  command->footer(
      "The program calls muster::join(argc, argv) first; each process then knows its rank and the others.\n"
      "What the workers print is not changed: let worker.is_first() print. Ctrl-C and SIGTERM are passed on once to "
      "each.\n"
      "The exit code is that of the first worker that ended badly. When one is lost the others get peer_lost, and are\n"
      "ended after 5 s if they do not end by themselves.\n"
      "\nExamples:\n"
      "  muster run -n 4 ./my_program --epochs 3");
  command->callback([command, flags, &outcome] {
    std::vector<std::string> arguments(flags->program.begin() + 1, flags->program.end());
    const std::vector<std::string> rest = command->remaining();
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    outcome.exit_code = watch_workers({flags->program.front(), arguments, {}}, flags->workers, kGrace);
  });
}

}  // namespace muster::cli
