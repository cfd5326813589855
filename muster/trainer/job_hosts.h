// A job on as many hosts as something starts it on: the one rule that all launchers ask, before they hand a job over
// (Slurm, Kubernetes) and when it begins (srun, mpirun, --hosts, --listen). What keeps a mesh on one host is a rule of
// the job file (job_rules.h), which shows when the job is read with its hosts. Thread safety: values. No torch here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/trainer/job.h"

namespace muster::trainer {

// Throws Error{kInvalidInput}, with the key and what is typed instead, for jobs that hosts do not share: each of them
// would train all of it.
void require_shared_by_hosts(const ResolvedJob& resolved);

// The value that the job needs over its file to be that of `hosts` hosts; nothing: it says so itself, or there is one.
// Throws likewise, and for a job that says another number.
std::optional<std::string> hosts_assignment(const ResolvedJob& resolved, int hosts);

// The job as it is on `hosts` hosts. Throws likewise, and as load_job.
ResolvedJob load_job_on(int hosts, const std::filesystem::path& path, std::vector<std::string> assignments);

}  // namespace muster::trainer
