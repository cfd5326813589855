// muster tune show: a study as a table, as CSV or JSON, as plots, as a page.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_tune_show(CLI::App& tune);

}  // namespace muster::cli
