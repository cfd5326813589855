// muster search: the blocks of a net that is fast on this machine and good at a job.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_block_search(CLI::App& app);

}  // namespace muster::cli
