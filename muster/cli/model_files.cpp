// One way in for all that has weights, so that show and convert need not know what they were given. Orders differ (a
// checkpoint has the flat layout's, files the model's) and are made the same here.
#include "muster/cli/model_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/runs.h"
#include "muster/compute/exemption.h"
#include "muster/model/checkpoint_folder.h"
#include "muster/model/torch_optimizer.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

std::vector<std::pair<std::string, model::TorchOption>> torch_options(const trainer::ResolvedJob& resolved, double lr,
                                                                      double weight_decay, const std::string& where) {
  const auto& o = resolved.job.optimizer;
  const model::TorchOption none;
  if (o.name == "sgd") {
    return {{"lr", lr},
            {"momentum", *o.momentum},
            {"dampening", *o.dampening},
            {"weight_decay", weight_decay},
            {"nesterov", o.nesterov},
            {"maximize", false},
            {"foreach", none},
            {"differentiable", false}};
  }
  if (o.name == "adam" || o.name == "adamw") {
    return {{"lr", lr},
            {"betas", std::pair(*o.beta1, *o.beta2)},
            {"eps", *o.eps},
            {"weight_decay", weight_decay},
            {"amsgrad", false},
            {"maximize", false},
            {"foreach", none},
            {"capturable", false},
            {"differentiable", false},
            {"fused", none}};
  }
  throw Error(ErrorKind::kUnsupported, fmt::format("the optimizer is {}, which torch.optim does not have", o.name),
              where, "The states of sgd, adam and adamw can be written.");
}

}  // namespace

ModelFile open_model(const std::string& what, const trainer::CheckpointChoice& choice) {
  ModelFile file;
  file.path = what;
  if (std::filesystem::is_regular_file(what)) {
    trainer::refuse_choice(choice, what);
    file.weights = model::read_weights(what);
    return file;
  }
  // A checkpoint's own folder: its name is its step.
  std::filesystem::path folder = what;
  if (folder.filename().empty()) folder = folder.parent_path();
  std::string note;
  if (const auto step = model::step_of(folder.filename().string())) {
    trainer::refuse_choice(choice, what);
    file.checkpoint = model::CheckpointStore(folder.parent_path()).load(*step);
    note = fmt::format("step {} of its run", *step);
  } else {
    const FoundModel found = find_model(what);
    if (!found.note.empty()) file.weights.notes.push_back(found.note);
    const trainer::RunFolder run = trainer::RunFolder::open(found.path);
    const trainer::ChosenCheckpoint chosen = trainer::choose_checkpoint(run.path(), choice);
    file.checkpoint = model::CheckpointStore(run.checkpoints()).load(chosen.step);
    note = chosen.why;
  }
  file.path = file.checkpoint->path / model::kModelFile;
  const model::TensorSet& set = file.checkpoint->model;
  for (const model::TensorEntry& entry : set.header().tensors)
    file.weights.tensors.push_back({entry.name, entry.dtype, entry.shape, set.data(entry)});
  file.weights.notes.push_back(std::move(note));
  return file;
}

void export_optimizer(const model::LoadedCheckpoint& checkpoint, const std::filesystem::path& path) {
  const std::string where = (checkpoint.path / model::kOptimizerFile).string();
  const trainer::ResolvedJob resolved = trainer::parse_job(checkpoint.manifest.job, where);
  const auto exemption = compute::parse_exemption(resolved.job.optimizer.exempt);
  const compute::Tuning tuning = trainer::tuning(resolved.job);
  const double decay = compute::weight_decay(trainer::optimizer_options(resolved));
  // A checkpoint has its tensors in the flat layout's order, the reverse of the model's.
  std::vector<model::TensorView> state;
  std::map<std::pair<bool, double>, model::TorchGroup> groups;  // by exemption and factor of the rate
  const auto& entries = checkpoint.optimizer.header().tensors;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->name.starts_with(model::kExtraPrefix)) continue;  // torch.optim has no place for it
    state.push_back({entry->name, entry->dtype, entry->shape, checkpoint.optimizer.data(*entry)});
    constexpr std::string_view kUpdates = "updates/";
    if (!entry->name.starts_with(kUpdates)) continue;
    const std::string name = entry->name.substr(kUpdates.size());
    const model::TensorEntry* const parameter = checkpoint.model.header().find(name);
    if (parameter == nullptr)
      throw Error(ErrorKind::kDamaged, fmt::format("has the state of {}, which the model does not", name), where);
    const bool exempt = compute::is_exempt(exemption, {name, parameter->shape, true, 0, 0});
    const double factor = compute::lr_factor(tuning, name);
    model::TorchGroup& group = groups[{exempt, factor}];
    if (group.options.empty()) group.options = torch_options(resolved, resolved.lr * factor, exempt ? 0 : decay, where);
    group.parameters.push_back(name);
  }
  std::vector<model::TorchGroup> ordered;
  for (auto& group : groups)
    ordered.push_back(std::move(group.second));
  model::write_torch_optimizer(path, ordered, state, where);
}

}  // namespace muster::cli
