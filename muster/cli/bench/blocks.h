// muster bench blocks: what the choices of a net of blocks take on this machine.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_blocks_bench(CLI::App& bench);

}  // namespace muster::cli
