// What a resolved job says, in the words of the layers below. One function a layer, so that no other file knows how
// keys and options correspond.
#include "muster/base/check.h"
#include "muster/trainer/job.h"

namespace muster::trainer {

compute::OptimizerOptions optimizer_options(const ResolvedJob& resolved) {
  const auto& o = resolved.job.optimizer;
  if (o.name == "sgd") {
    return compute::Sgd{.lr = resolved.lr,
                        .momentum = *o.momentum,
                        .dampening = *o.dampening,
                        .weight_decay = *o.weight_decay,
                        .nesterov = o.nesterov};
  }
  if (o.name == "adam") {
    return compute::Adam{
        .lr = resolved.lr, .beta1 = *o.beta1, .beta2 = *o.beta2, .eps = *o.eps, .weight_decay = *o.weight_decay};
  }
  if (o.name == "adamw") {
    return compute::AdamW{
        .lr = resolved.lr, .beta1 = *o.beta1, .beta2 = *o.beta2, .eps = *o.eps, .weight_decay = *o.weight_decay};
  }
  if (o.name == "lars") {
    return compute::Lars{.lr = resolved.lr,
                         .momentum = *o.momentum,
                         .weight_decay = *o.weight_decay,
                         .trust = *o.trust,
                         .eps = *o.eps,
                         .nesterov = o.nesterov};
  }
  MUSTER_CHECK(o.name == "lamb", "an optimizer that the schema allows has no options: " + o.name);
  return compute::Lamb{
      .lr = resolved.lr, .beta1 = *o.beta1, .beta2 = *o.beta2, .eps = *o.eps, .weight_decay = *o.weight_decay};
}

data::SourceOptions source_options(const Job& job) {
  data::SourceOptions options;
  options.source = job.data.source;
  options.path = job.data.path;
  options.shape = job.data.shape;
  options.classes = job.data.classes;
  options.samples = static_cast<std::uint64_t>(job.data.samples);
  options.test_samples = static_cast<std::uint64_t>(job.data.test_samples);
  options.seed = static_cast<std::uint64_t>(job.seed);
  options.augment = job.data.augment;
  options.test_path = job.data.test_path;
  options.validation_path = job.data.validation_path;
  options.test_fraction = job.data.test_fraction;
  options.validation = job.data.validation;
  options.bad_samples.on_bad_sample =
      job.data.on_bad_sample == "skip" ? data::OnBadSample::kSkip : data::OnBadSample::kFail;
  options.bad_samples.limit = static_cast<std::uint64_t>(job.data.bad_sample_limit);
  options.table.delimiter = job.data.delimiter.front();
  options.table.header = job.data.header;
  options.table.target = job.data.target;
  // A task of a library has classes, unless several numbers are asked for.
  options.table.regression = job.loss.task == "regression" || (job.loss.task == "library" && !job.data.targets.empty());
  options.table.numeric = job.data.numeric;
  options.table.categorical = job.data.categorical;
  options.table.ignore = job.data.ignore;
  if (job.data.missing) options.table.missing_value = static_cast<float>(*job.data.missing);
  options.table.targets = job.data.targets;
  options.table.decimal = job.data.decimal.front();
  options.table.latin1 = job.data.encoding == "latin-1";
  if (job.is_vertical()) options.table.id = job.vertical.id;
  options.labels.file = job.data.labels;
  options.labels.file_column = job.data.file_column;
  options.text.latin1 = options.table.latin1;
  options.text.bytes = job.data.tokens == "bytes";
  options.text.window = job.data.window;
  if (job.data.mean) {
    options.normalization = data::Normalization{{job.data.mean->begin(), job.data.mean->end()},
                                                {job.data.stddev->begin(), job.data.stddev->end()}};
  }
  options.library = {job.data.library, job.data.library_sha256, job.data.name};
  options.own = job.data.options;
  return options;
}

model::ModelOptions model_options(const Job& job) {
  const auto& m = job.model;
  model::ModelOptions options;
  options.name = m.name.value_or("");
  options.script = m.script;
  options.library = m.library;
  options.library_sha256 = m.library_sha256;
  if (m.hidden == std::vector<std::int64_t>{0})
    options.hidden.emplace();  // none
  else if (!m.hidden.empty())
    options.hidden = m.hidden;
  options.dropout = m.dropout;
  options.activation = m.activation;
  options.norm = m.norm;
  options.groups = m.groups;
  options.width = m.width;
  options.depth = m.depth;
  options.heads = m.heads;
  options.embedding = m.embedding;
  options.recompute = m.recompute;
  options.own = m.options;
  return options;
}

PartOfLibrary task_of_library(const Job& job) {
  return {job.loss.library, job.loss.library_sha256, job.loss.name};
}

std::uint64_t total_steps(const Job& job, const data::BatchShape& shape) {
  if (job.steps) return static_cast<std::uint64_t>(*job.steps);
  return static_cast<std::uint64_t>(job.epochs) * data::steps_per_epoch(shape);
}

compute::Tuning tuning(const Job& job) {
  return {job.model.freeze, compute::parse_unfreeze(job.model.unfreeze),
          compute::parse_lr_factors(job.optimizer.lr_factors)};
}

compute::Schedule schedule(const Job& job, const data::BatchShape& shape) {
  const auto per_epoch = static_cast<double>(data::steps_per_epoch(shape));
  compute::Schedule schedule;
  schedule.kind = compute::parse_schedule(job.optimizer.schedule);
  schedule.warmup_steps = job.optimizer.warmup_epochs * per_epoch;
  schedule.warmup_start = job.optimizer.warmup_start;
  schedule.total_steps = total_steps(job, shape);
  for (const double epoch : job.optimizer.milestones)
    schedule.milestones.push_back(epoch * per_epoch);
  schedule.gamma = job.optimizer.gamma;
  schedule.power = job.optimizer.power;
  schedule.final_fraction = job.optimizer.final_fraction;
  return schedule;
}

}  // namespace muster::trainer
