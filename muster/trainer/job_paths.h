// Where the paths of a job file lead. No torch here.
//
// What a job reads (data, scripts, libraries, weights) is named as seen from the job file, so that a folder with a job
// and its data can be used from anywhere; what an assignment of --set names is seen from the current folder, as shells
// complete it. A resolved job has whole paths only: the copy in a run's folder, and programs started elsewhere, mean
// the same files. Where a job writes (job.runs, parallel.event_log) is the current folder's affair.
#pragma once

#include <filesystem>
#include <string_view>

#include "muster/base/config.h"
#include "muster/base/json.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

// Makes every path that is not whole one. `schema` is bound to `job` and has loaded `file`.
void complete_paths(const Schema& schema, Job& job, const std::filesystem::path& file);

// Whether two values of "section.key" name the same thing: files by their names, since folders are moved.
bool same_value(std::string_view key, const Json& a, const Json& b);

}  // namespace muster::trainer
