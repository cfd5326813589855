// What a process of `bench step --hosts` does on one of the hosts: "coordinator", "agent" and "worker" are a job of
// several hosts as `muster train --listen` and `muster agent` run it, with the benchmark's steps in the workers;
// "link-listens" and "link-connects" measure what the link between two hosts carries.
#pragma once

#include "muster/cli/bench/bench.h"

namespace muster::cli {

// The network interface that every host has to the others.
constexpr const char* kHostInterface = "eth0";

// To its end. REQUIRES: options.role is one of those above.
void run_host_role(const StepBench& options);

}  // namespace muster::cli
