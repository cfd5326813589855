// From a job to the parts that a run is made of.
#pragma once

#include <memory>

#include "muster/data/dataset.h"
#include "muster/data/lane_plan.h"
#include "muster/model/net.h"
#include "muster/trainer/job.h"
#include "muster/trainer/session.h"
#include "muster/trainer/staged_lanes.h"
#include "muster/trainer/task.h"
#include "muster/trainer/trainer.h"

namespace muster::trainer {

// Throws Error{kInvalidInput} for a task that the samples do not fit.
// `class_weights` are for training (class_weights.h).
std::shared_ptr<const Task> build_task(const Job& job, const data::SampleSpec& spec,
                                       std::vector<double> class_weights = {});
// All that the job and its data say of the model.
model::ModelOptions model_options(const Job& job, const data::SampleSpec& spec);
// With the weights of the job's seed. Throws Error{kInvalidInput}.
std::shared_ptr<model::Net> build_model(const Job& job, const data::SampleSpec& spec);
// Whether workers need not make the model in memory of their own: its first values are written where they stay
// (model/hollow.h). Of jobs with a mesh, whose models need not fit any of them.
bool may_be_hollow(const Job& job);
// How the job's model is computed in stages; empty for a job without a pipeline. Throws Error{kInvalidInput,
// kUnsupported} with the key.
std::shared_ptr<const StagedModel> build_stages(const ResolvedJob& resolved, const data::SampleSpec& spec,
                                                const std::shared_ptr<model::Net>& net);
SessionOptions session_options(const ResolvedJob& resolved, const data::BatchShape& shape,
                               const TrainingOptions& training);

}  // namespace muster::trainer
