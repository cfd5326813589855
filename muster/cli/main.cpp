// The `muster` program. Flags end here: below, everything is told what to do.
//
// Exit codes: 0 done, 1 a failure, 2 a user's mistake, 130 and 143 stopped by SIGINT and SIGTERM.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/heap.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/cli/command.h"
#include "muster/cli/exit_code.h"
#include "muster/cli/flag_hint.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app{"Distributed deep-learning training for C++ and LibTorch."};
  app.name("muster");
  app.set_version_flag("--version", muster::version());
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  muster train examples/fashion.toml            train, with a progress line\n"
      "  muster train job.toml --set job.epochs=3      change a key for this run\n"
      "  muster train job.toml --resume                go on where the newest run stopped\n"
      "  muster init table.csv                         look at data and write a job file for it\n"
      "  muster check job.toml                         validate, and print every default\n"
      "  muster run -n 4 ./my_program                  a LibTorch program of your own as 4 workers\n"
      "  muster status                                 the jobs that run here\n"
      "  muster scale fashion 3                        the same job with 3 workers\n"
      "\nmuster COMMAND --help tells more.");
  muster::cli::Outcome outcome;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  muster::cli::add_train(app, arguments, outcome);
  muster::cli::add_run(app, outcome);
  muster::cli::add_status(app);
  muster::cli::add_scale(app);
  muster::cli::add_stop(app);
  muster::cli::add_set(app);
  muster::cli::add_attach(app, outcome);
  muster::cli::add_server(app);
  muster::cli::add_logs(app);
  muster::cli::add_ledger(app, outcome);
  muster::cli::add_chaos(app, outcome);
  muster::cli::add_data(app);
  muster::cli::add_model(app);
  muster::cli::add_models(app);
  muster::cli::add_init(app);
  muster::cli::add_evaluate(app);
  muster::cli::add_predict(app);
  muster::cli::add_generate(app);
  muster::cli::add_check(app);
  muster::cli::add_info(app);
  muster::cli::add_bench(app);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    throw muster::Error(muster::ErrorKind::kInvalidInput,
                        fmt::format("no command \"{}\"{}", argv[1], muster::did_you_mean(argv[1], names)), {},
                        fmt::format("Commands are {}.", muster::join_words(names)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has codes of its own; a wrong command line is a user's mistake like any other.
    if (app.exit(error) == 0) return 0;
    if (const std::string hint = muster::cli::flag_hint(arguments); !hint.empty()) fmt::print(stderr, "{}\n", hint);
    return 2;
  }
  return outcome.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // A file-size limit is a full disk to us: an error to report, not a signal that ends training.
  std::signal(SIGXFSZ, SIG_IGN);
  muster::keep_freed_memory();
  return muster::cli::exit_code_of([&] {
    // For tests of what happens when a process dies at a given place.
    if (const char* rules = std::getenv("MUSTER_FAILPOINTS")) muster::arm_failpoints(rules);
    return run(argc, argv);
  });
}
