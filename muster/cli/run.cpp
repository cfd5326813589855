// muster run: N processes of a user's program as the workers of one job.
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/workers.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kGrace{30};

struct RunFlags {
  int workers = 1;
};

}  // namespace

void add_run(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("run", "Start a LibTorch program as several workers on this machine.");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("-n,--workers", flags->workers, "Worker processes")->required()->check(CLI::Range(1, 64));
  // Everything from the program's name on is the program's.
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
    const std::vector<std::string> words = command->remaining();
    if (words.empty()) throw Error(ErrorKind::kInvalidInput, "no program to run", {}, "muster run -n 4 ./my_program");
    const std::vector<std::string> arguments(words.begin() + 1, words.end());
    outcome.exit_code = watch_workers({words.front(), arguments, {}}, flags->workers, kGrace);
  });
}

}  // namespace muster::cli
