// Which study a person means, and where it is kept: a folder with study.db (the store), study.toml (the file it was
// begun with), trials/ and, once there is one, best.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/control/store.h"
#include "muster/tuning/study_file.h"
#include "muster/tuning/study_plan.h"

namespace muster::cli {

std::filesystem::path store_of(const std::filesystem::path& study);
bool is_study(const std::filesystem::path& folder);

// `what`: a study's folder, its name below "studies", or its study file. Throws kNotFound, with what there is.
std::filesystem::path find_study(const std::string& what);

// The folder of the study that a file describes.
std::filesystem::path folder_of(const tuning::StudyFile& file);
// The job file of a study, as an absolute path.
std::filesystem::path job_of(const tuning::StudyFile& file);

// The whole plan: with what the job says, and with the results of earlier studies (not of a study that was begun
// already, which has them). Throws Error{kInvalidInput} with the line for keys that are none of the job's.
tuning::StudyPlan plan_of(const tuning::StudyFile& file);

// Makes the folder, with the file in it. REQUIRES: it is not there, or is a study.
void make_study(const std::filesystem::path& folder, const tuning::StudyFile& file);

}  // namespace muster::cli
