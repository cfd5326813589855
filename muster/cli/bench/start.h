// muster bench start: how long commands take from being typed to their job's first step.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_start_bench(CLI::App& bench);

}  // namespace muster::cli
