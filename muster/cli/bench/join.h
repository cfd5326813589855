// muster bench join: what it costs a job of several hosts that one more joins it.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_join_bench(CLI::App& bench);

}  // namespace muster::cli
