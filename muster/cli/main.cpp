// The `muster` program. Flags end here: below, everything is told what to do.
//
// Exit codes: 0 done, 1 a failure, 2 a user's mistake, 130 and 143 stopped by SIGINT and SIGTERM.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
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
#include "muster/cli/search.h"
#include "muster/cli/tune.h"

namespace muster::cli {
namespace {

// A line of `muster --help`: adds its command to the program.
using AddCommand = std::function<void(CLI::App&)>;

struct CommandGroup {
  std::string title;  // in `muster --help`; empty: its commands are not shown there
  std::vector<AddCommand> commands;
};

// The program once more, in a copy of this process.
int run_again(const std::vector<std::string>& arguments);

// Every command there is, in groups as `muster --help` shows them, and in a group as a user meets them.
std::vector<CommandGroup> command_groups(const std::vector<std::string>& arguments, Outcome& outcome) {
  const AddCommand add_train_with = [&](CLI::App& app) { add_train(app, arguments, outcome); };
  const AddCommand add_tune_with = [&](CLI::App& app) { add_tune(app, run_again, outcome); };
  const auto with = [&outcome](void (*add)(CLI::App&, Outcome&)) {
    return [add, &outcome](CLI::App& app) { add(app, outcome); };
  };
  return {
      {"Train and look",
       {add_init, add_check, add_train_with, add_tune_with, add_block_search, add_new, with(add_run), with(add_agent),
        with(add_federated), add_evaluate, add_predict, add_generate}},
      {"Models and data", {add_model, add_data}},
      {"Running jobs",
       {add_status, add_logs, add_scale, add_set, add_stop, with(add_attach), with(add_coordinator), with(add_ledger)}},
      {"Hosts", {with(add_launch), with(add_doctor), add_certs, add_bundle}},
      {"Measure", {add_info, add_bench, with(add_chaos)}},
      {"", {add_server}},  // jobs start it, not users
  };
}

void add_commands(CLI::App& app, const std::vector<std::string>& arguments, Outcome& outcome) {
  for (const CommandGroup& group : command_groups(arguments, outcome)) {
    for (const AddCommand& add : group.commands) {
      add(app);
      app.get_subcommands({}).back()->group(group.title);
    }
  }
}

// CLI11 would say only that the argument was not expected.
void refuse_unknown_command(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with('-')) return;
  const std::string& word = arguments.front();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({}))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  if (const std::string hint = renamed_command_hint(word); !hint.empty())
    throw Error(ErrorKind::kInvalidInput, fmt::format("no command \"{}\"", word), {}, hint);
  throw Error(ErrorKind::kInvalidInput, fmt::format("no command \"{}\"{}", word, did_you_mean(word, names)), {},
              fmt::format("Commands are {}.", join_words(names)));
}

int run(int argc, char** argv) {
  CLI::App app{"Distributed deep-learning training for C++ and LibTorch."};
  app.name("muster");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  Outcome outcome;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  add_commands(app, arguments, outcome);
  // Behind them: a command that has no footer of its own would show this one.
  app.footer(
      "Examples:\n"
      "  muster train examples/fashion.toml            train, with a progress line\n"
      "  muster train job.toml --set job.epochs=3      change a key for this run\n"
      "  muster train job.toml --resume                go on where the newest run stopped\n"
      "  muster tune examples/study.toml               search the best values of a job's keys\n"
      "  muster init table.csv                         look at data and write a job file for it\n"
      "  muster check job.toml                         validate, and print every default\n"
      "  muster run -n 4 ./my_program                  a LibTorch program of your own as 4 workers\n"
      "  muster status                                 the jobs that run here\n"
      "  muster scale fashion 3                        the same job with 3 workers\n"
      "\nmuster COMMAND --help tells more.");
  refuse_unknown_command(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has codes of its own; a wrong command line is a user's mistake like any other.
    if (app.exit(error) == 0) return 0;
    if (const std::string hint = flag_hint(arguments); !hint.empty()) fmt::print(stderr, "{}\n", hint);
    return 2;
  }
  return outcome.exit_code;
}

int run_again(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"muster"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  return exit_code_of([&] { return run(static_cast<int>(words.size()), argv.data()); });
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  // A file-size limit is a full disk to us: an error to report, not a signal that ends training.
  std::signal(SIGXFSZ, SIG_IGN);
  muster::keep_freed_memory();
  return muster::cli::exit_code_of([&] {
    // For tests of what happens when a process dies at a given place.
    if (const char* rules = std::getenv("MUSTER_FAILPOINTS")) muster::arm_failpoints(rules);
    return muster::cli::run(argc, argv);
  });
}
