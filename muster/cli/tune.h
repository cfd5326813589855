// muster tune.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/cli/command.h"

namespace muster::cli {

// Does what this program does with these arguments, and gives the exit code.
using RunCommand = std::function<int(const std::vector<std::string>&)>;

// `run`: for the trials, which are other commands of this program.
void add_tune(CLI::App& app, const RunCommand& run, Outcome& outcome);

}  // namespace muster::cli
