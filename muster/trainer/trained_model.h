// A model that was trained, ready to be used: the net with its weights, its task, and how its data is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "muster/model/net.h"
#include "muster/trainer/checkpoint_choice.h"
#include "muster/trainer/job.h"
#include "muster/trainer/model_card.h"
#include "muster/trainer/task.h"

namespace muster::trainer {

struct TrainedModel {
  ResolvedJob resolved;
  ModelCard card;
  std::shared_ptr<model::Net> net;  // in evaluation mode
  std::shared_ptr<const Task> task;
  std::filesystem::path run;      // its folder
  std::filesystem::path weights;  // the file they are from
  std::string chosen;             // of a run: which checkpoint and why; else empty
};

struct TrainedModelOptions {
  std::filesystem::path run = {};    // of which the file is, where its place does not say it
  CheckpointChoice checkpoint = {};  // of a run
};

// `path` is a run's folder, a checkpoint in one, or a file of weights (model/weights.h). Throws Error{kNotFound} for
// what is none of these; kMismatch naming the tensors that are missing or of another shape; what reading throws.
TrainedModel open_trained(const std::filesystem::path& path, const TrainedModelOptions& options = {});

}  // namespace muster::trainer
