// Which folder of a run has the record, the token and the address by which this host's processes reach the job.
//
// The coordinator's are in the run's folder itself. On every other host of a job the agent has its own, below: the
// run's folder may be one that all hosts see, and process numbers and sockets of one host mean nothing on another.
#pragma once

#include <filesystem>

namespace muster::control {

// Of an agent on this host: RUN/hosts/SPACE, where SPACE is process_space().
std::filesystem::path host_folder(const std::filesystem::path& run);

// For those who call: the run's folder, unless the job is coordinated from another host and an agent of this one has
// served commands. Of a host that has been both: what it is now, or was last. Throws as open_record_store
// (job_store.h).
std::filesystem::path commands_folder(const std::filesystem::path& run);

}  // namespace muster::control
