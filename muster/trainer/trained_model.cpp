#include "muster/trainer/trained_model.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/compute/threads.h"
#include "muster/model/checkpoint.h"
#include "muster/model/initialize.h"
#include "muster/trainer/build.h"
#include "muster/trainer/run_folder.h"

namespace muster::trainer {
namespace {

namespace fs = std::filesystem;

bool is_run(const fs::path& path) {
  return fs::exists(path / "job.toml") && fs::is_directory(path / "checkpoints");
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

fs::path chosen_checkpoint(const fs::path& run, const std::string& which) {
  const model::CheckpointStore store(run / "checkpoints");
  const std::vector<std::uint64_t> steps = store.list();
  if (steps.empty())
    throw Error(ErrorKind::kNotFound, "the run has no checkpoint yet", run.string(), "Wait for one, or train on.");
  if (which == "last") return store.path_of(steps.back());
  if (which == "best") {
    const std::optional<model::BestCheckpoint> best = store.best();
    return store.path_of(best ? best->step : steps.back());
  }
  std::uint64_t step = 0;
  const auto parsed = std::from_chars(which.data(), which.data() + which.size(), step);
  if (parsed.ec != std::errc() || parsed.ptr != which.data() + which.size() ||
      std::find(steps.begin(), steps.end(), step) == steps.end())
    throw Error(ErrorKind::kInvalidInput, fmt::format("there is no checkpoint \"{}\"", which), run.string(),
                fmt::format("Give best, last, or one of the steps {}.", fmt::join(steps, ", ")));
  return store.path_of(step);
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
  if (fs::is_directory(path)) {
    const bool checkpoint = fs::exists(path / model::kModelFile);
    trained.weights = (checkpoint ? path : chosen_checkpoint(*run, options.checkpoint)) / model::kModelFile;
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
