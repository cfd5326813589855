// How a process of this program ends: errors become messages, and the exit codes of docs/errors.md.
#pragma once

#include <functional>

namespace muster::cli {

// What `work` gives, or the exit code of what it throws, which is told on standard error.
int exit_code_of(const std::function<int()>& work);

}  // namespace muster::cli
