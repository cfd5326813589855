// Commands that start workers: what they have in common.
#pragma once

#include <chrono>
#include <string>

#include "muster/launch/child_process.h"

namespace muster::cli {

// The path of this program.
std::string own_program();

// Starts `workers` processes of `command`, passes SIGINT and SIGTERM on to them, and stays until all have ended. Gives
// the exit code that this process should end with: that of the first worker that ended badly. Throws kPeerLost naming
// the worker when a signal that nobody asked for ended it.
int watch_workers(const launch::Command& command, int workers, std::chrono::duration<double> grace);

}  // namespace muster::cli
