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

// The folder of the run: `job` as a path, or as a name in `runs`, as the name of a job that has one run there, or as
// the beginning of exactly one name; of several the one that is alive. Throws kNotFound (with what there is),
// kInvalidInput (which ones it could be).
std::filesystem::path find_run(const std::string& job, const std::filesystem::path& runs);

// For commands: the same, of several the one that is alive, or the newest where none is. Throws kNotFound where there
// is no such run, with the names of those that run.
std::filesystem::path find_commanded(const std::string& job, const std::filesystem::path& runs);
// Throws kNotFound, with the names of those below `runs` that run, if nobody of this run lives.
void require_running(const std::filesystem::path& run, const std::filesystem::path& runs);

// For those who only look: the same, but by a job's whole name the one that is alive, or the newest of its runs.
std::filesystem::path find_newest_run(const std::string& job, const std::filesystem::path& runs);

struct FoundModel {
  std::filesystem::path path;
  std::string note = {};  // which newer run was passed over and why, or nothing
};

// What a person means by a trained model: a file, a folder of or in a run, or a run. By a job's whole name that is the
// newest of its runs with a checkpoint, even if there is a folder (of data, say) that is called alike; the newest at
// all if none has one. Throws as find_run().
FoundModel find_model(const std::string& what, const std::filesystem::path& runs = "runs");

}  // namespace muster::cli
