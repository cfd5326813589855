// What `muster model` reads: a file of weights, or a run or checkpoint of Muster's. No torch here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "muster/model/checkpoint.h"
#include "muster/model/weights.h"
#include "muster/trainer/checkpoint_choice.h"
#include "muster/trainer/job.h"

namespace muster::cli {

struct ModelFile {
  std::filesystem::path path;  // of the weights
  model::Weights weights;
  std::optional<model::LoadedCheckpoint> checkpoint;  // of a run or a checkpoint
};

// `what` is a file, a checkpoint's folder, or a run as find_model() knows it: then the chosen checkpoint of it,
// and the notes say which. Throws as trainer::choose_checkpoint, and what reading throws.
ModelFile open_model(const std::string& what, const trainer::CheckpointChoice& choice = {});

// Writes the checkpoint's optimizer state for Python's torch.optim. Throws kUnsupported for an optimizer that torch
// does not have.
void export_optimizer(const model::LoadedCheckpoint& checkpoint, const std::filesystem::path& path);

// Writes the model that `job` describes, with these weights, as TorchScript. Throws as model::export_script and
// model::initialize. (model_script.cpp)
void write_script(const trainer::ResolvedJob& job, const ModelFile& file, const std::filesystem::path& path);

}  // namespace muster::cli
