// Which run a person means by JOB: a folder, its name, or the beginning of one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "muster/control/job_record.h"

namespace muster::cli {

// Every run below `runs`, newest first. None when there is no such folder.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& runs);

// Whether the job's coordinator or a worker of it is a living process.
bool is_alive(const control::JobRecord& record);
// The same for a folder. False for a run without a record.
bool is_alive(const std::filesystem::path& run);

// The folder of the run: `job` as a path, or as a name in `runs`, or as the beginning of exactly one name there; of
// several the one that is alive. Throws kNotFound (with what there is), kInvalidInput (which ones it could be).
std::filesystem::path find_run(const std::string& job, const std::filesystem::path& runs);

// For those who only read: the same, but by a job's whole name the newest of its runs.
std::filesystem::path find_newest_run(const std::string& job, const std::filesystem::path& runs);

// What a person means by a trained model: a file, a folder of or in a run, or a run as find_newest_run() knows it. A
// name of a job with runs is that job, even if there is a folder (of data, say) that is called alike. Throws as
// find_run().
std::filesystem::path find_model(const std::string& what, const std::filesystem::path& runs = "runs");

}  // namespace muster::cli
