// muster bench tune.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_tune_bench(CLI::App& bench);

}  // namespace muster::cli
