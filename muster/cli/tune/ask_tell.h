// muster tune ask and tell: a study for programs in any language, one call of the shell at a time.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::cli {

void add_ask_tell(CLI::App& tune);

}  // namespace muster::cli
