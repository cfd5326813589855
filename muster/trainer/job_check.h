// What `muster check` does beyond reading the job file: everything that the start of a run does and may refuse, by the
// same functions, and nothing that lasts. No torch here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/trainer/datasets.h"
#include "muster/trainer/job.h"

namespace muster::model {
class Net;
}

namespace muster::trainer {

// The job's model for these samples, with the weights of the job's seed. Throws Error{kInvalidInput, kMismatch,
// kNotFound, kUnsupported} with the key that is at fault and its place; kDamaged with the file.
std::shared_ptr<model::Net> build_fitting_model(const ResolvedJob& resolved, const data::SampleSpec& spec);

// Throws, with the key, unless the file of optimizer.init, if the job names one, has the state of the job's optimizer
// for this model.
void check_optimizer_file(const ResolvedJob& resolved, const model::Net& net);

// What can be trained and is hardly meant: of job and data (job_fit.h) and of the model.
std::vector<std::string> all_doubts(const ResolvedJob& resolved, const data::Dataset& train, const model::Net& net);

struct JobCheck {
  std::vector<std::string> doubts{};  // what deserves a warning
  std::vector<std::string> stages{};  // of a pipeline: who holds what (stages.h)
  std::vector<std::string> own{};     // of parts from libraries: which options of their own they have
};

// Tries the job on its data, as the start of a run would. Throws what that would throw, memory and the run's folder
// aside.
JobCheck check_job(const ResolvedJob& resolved, const Datasets& sets);

}  // namespace muster::trainer
