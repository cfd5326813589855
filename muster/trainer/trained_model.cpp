// A run, a checkpoint in it or a file of weights all lead to the same: card, job, net, weights. Which of them was given
// is found out by what stands beside it.
#include "muster/trainer/trained_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/compute/threads.h"
#include "muster/model/checkpoint.h"
#include "muster/model/initialize.h"
#include "muster/trainer/build.h"
#include "muster/trainer/run_folder.h"

namespace muster::trainer {
namespace {

namespace fs = std::filesystem;

// Also one that has no checkpoint; a job file of a user's own has none of these beside it.
bool is_run(const fs::path& path) {
  constexpr std::array kTraces{"checkpoints", "metrics.jsonl", "inputs.json", "control.db"};
  return fs::exists(path / "job.toml") &&
         std::any_of(kTraces.begin(), kTraces.end(), [&](const char* trace) { return fs::exists(path / trace); });
}

// The run that a checkpoint, or a file in one, belongs to.
std::optional<fs::path> run_around(const fs::path& path) {
  fs::path folder = fs::absolute(path).lexically_normal();
  for (int up = 0; up < 4; ++up) {
    if (is_run(folder)) return folder;
    folder = folder.parent_path();
  }
  return std::nullopt;
}

// The file must have every tensor of the model.
void load_weights(model::Net& net, const fs::path& path) {
  try {
    model::initialize(net, model::read_weights(path), {}, path.string());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) throw;
    throw Error(error.kind(), error.message(), error.where(), "Give --run the run that the weights are of.");
  }
}

}  // namespace

TrainedModel open_trained(const fs::path& path, const TrainedModelOptions& options) {
  if (!fs::exists(path)) throw Error(ErrorKind::kNotFound, "there is no such run or file", path.string());
  const std::optional<fs::path> run = options.run.empty() ? run_around(path) : options.run;
  if (!run || !is_run(*run)) {
    throw Error(ErrorKind::kNotFound, "is neither a run nor a file inside of one", (run ? *run : path).string(),
                "Give the folder of a run, or with a file of weights --run RUN: the run that says which model it is.");
  }
  TrainedModel trained;
  trained.run = *run;
  const bool is_checkpoint = fs::exists(path / model::kModelFile);
  if (is_checkpoint || !fs::is_directory(path)) refuse_choice(options.checkpoint, path);
  if (fs::is_directory(path)) {
    if (is_checkpoint) {
      trained.weights = path / model::kModelFile;
    } else {
      const ChosenCheckpoint checkpoint = choose_checkpoint(*run, options.checkpoint);
      trained.weights = checkpoint.path / model::kModelFile;
      trained.chosen = checkpoint.why;
    }
  } else {
    trained.weights = path;
  }
  const RunFolder folder = RunFolder::open(*run);
  trained.resolved = parse_job(folder.job(), folder.job_file().string());
  trained.card = ModelCard::read(*run);
  compute::set_threads(static_cast<int>(trained.resolved.job.threads));
  trained.task = build_task(trained.resolved.job, trained.card.form.spec);
  trained.net = build_model(trained.resolved.job, trained.card.form.spec);
  load_weights(*trained.net, trained.weights);
  trained.net->eval();
  return trained;
}

}  // namespace muster::trainer
