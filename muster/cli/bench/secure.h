// muster bench secure-aggregation.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_secure_bench(CLI::App& bench);

}  // namespace muster::cli
