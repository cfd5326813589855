// Which run it is, before anything of it is loaded. No torch here.
#pragma once

#include <filesystem>

#include "muster/trainer/job.h"
#include "muster/trainer/run_folder.h"

namespace muster::trainer {

// The run to go on with: `run`, or, if that is empty, the newest one of the job. Throws Error{kNotFound} if there is
// none, and Error{kMismatch} if the job would give another result than the one that the run began with.
RunFolder find_resumed(const ResolvedJob& resolved, const std::filesystem::path& run);

}  // namespace muster::trainer
