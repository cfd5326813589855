// The commands of the program. Each adds itself to the command line and does its work when it was called; main.cpp has
// the list of them as users see it.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace muster::cli {

// What a command leaves for main: the exit code, when it is not 0 and no Error says it.
struct Outcome {
  int exit_code = 0;
};

// `arguments` are the program's own, without its name: the workers of a job are started with the same.
void add_train(CLI::App& app, const std::vector<std::string>& arguments, Outcome& outcome);
void add_run(CLI::App& app, Outcome& outcome);
// Jobs that run: what they do, and commands to them.
void add_status(CLI::App& app);
void add_scale(CLI::App& app);
void add_stop(CLI::App& app);
void add_set(CLI::App& app);
void add_agent(CLI::App& app, Outcome& outcome);
void add_attach(CLI::App& app, Outcome& outcome);
void add_server(CLI::App& app);
void add_logs(CLI::App& app);
void add_ledger(CLI::App& app, Outcome& outcome);
void add_certs(CLI::App& app);
void add_chaos(CLI::App& app, Outcome& outcome);
void add_data(CLI::App& app);
void add_model(CLI::App& app);
void add_model_list(CLI::App& model);  // a part of add_model, in a file of its own
void add_init(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_predict(CLI::App& app);
void add_generate(CLI::App& app);
void add_check(CLI::App& app);
void add_info(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace muster::cli
