// Commands that run a job by its workers (coordinator/coordinator.h): what they have in common, and what they say.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "muster/cli/cluster_flags.h"
#include "muster/coordinator/coordinated_job.h"
#include "muster/coordinator/coordinator.h"
#include "muster/trainer/job.h"

namespace muster::cli {

// The path of this program.
std::string own_program();

// Of a job file; the command is the caller's.
coordinator::CoordinatedJob coordinated_job(const trainer::ResolvedJob& resolved);

// The hosts of a job file; where they join is the caller's.
coordinator::JobHosts hosts_of(const trainer::ResolvedJob& resolved);

// When workers are taken for silent, for hung, for stuck before they could train.
launch::WorkerWatchOptions watch_options(double liveness_seconds, double hang_seconds, double start_seconds);

// Starts the workers of `job`, passes SIGINT and SIGTERM on to them, and stays until all have ended. Gives the exit
// code that this process should end with. Throws as Coordinator::run.
// `begun` is told the run's folder once there is one; `look` is called again and again meanwhile; `ended` at the end,
// with whether the job was stopped by somebody.
int supervise_workers(coordinator::CoordinatedJob job, const std::function<void(const std::string& run)>& begun = {},
                      const std::function<void()>& look = {}, const std::function<void(bool stopped)>& ended = {});

// The memory that this host has for a job before it takes any, for the workers: "BYTES REASON" in this variable.
constexpr const char* kMemoryVariable = "MUSTER_MEMORY";
std::string memory_for_workers();
// The folder of the job's run, for the workers: made, or found, before they are started.
constexpr const char* kRunVariable = "MUSTER_RUN";

// What the temporary folder of an agent is called at first.
constexpr const char* kAgentFolderPrefix = "muster-host-";

// Says `message` to people, on a line of its own.
void tell(const std::string& message);

// Where a coordinator may be: the addresses of --join, joined by commas, each as join_by() has it.
std::vector<control::ClusterTarget> targets_of(const ClusterFlags& flags);

// Runs it with signals: SIGINT and SIGTERM lead to a stop, of which people are told. `look` is called several times a
// second. Gives the exit code as supervise_workers does.
int run_aloud(coordinator::Coordinator& coordinator, const std::function<void()>& look);

}  // namespace muster::cli
