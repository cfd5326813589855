// From the text of a job file to a resolved job: read by the schema, completed, checked. Lanes, batch and rates are
// decided here from the job alone, so that no worker and no number of workers can change them.
#include "muster/trainer/job.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/shared_object.h"
#include "muster/base/text.h"
#include "muster/data/augment/augmentation.h"
#include "muster/data/partition/partition.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/class_weights.h"
#include "muster/trainer/job_paths.h"
#include "muster/trainer/job_rules.h"

namespace muster::trainer {
namespace {

constexpr std::int64_t kDefaultBatch = 64;

// Which optimizers know a key; a key given to one that does not would silently do nothing, so it is refused.
struct OptimizerKey {
  const char* key;
  std::vector<std::string> optimizers;
};

const std::vector<OptimizerKey>& optimizer_keys() {
  static const std::vector<OptimizerKey> keys{
      {"momentum", {"sgd", "lars"}},
      {"dampening", {"sgd"}},
      {"nesterov", {"sgd", "lars"}},
      {"beta1", {"adam", "adamw", "lamb"}},
      {"beta2", {"adam", "adamw", "lamb"}},
      {"eps", {"adam", "adamw", "lars", "lamb"}},
      {"trust", {"lars"}},
  };
  return keys;
}

// Which schedules know a key.
const std::vector<OptimizerKey>& schedule_keys() {
  static const std::vector<OptimizerKey> keys{
      {"milestones", {"step"}},
      {"gamma", {"step"}},
      {"power", {"polynomial"}},
      {"final_fraction", {"cosine", "polynomial"}},
  };
  return keys;
}

// Which sources know a key.
struct DataKey {
  const char* key;
  std::vector<std::string> sources;
};

const std::vector<DataKey>& data_keys() {
  static const std::vector<DataKey> keys{
      {"path", {"fashion-mnist", "idx", "cifar10", "pictures", "csv", "numpy", "text", "packed", "library"}},
      {"mean", {"fashion-mnist", "idx", "cifar10", "pictures", "numpy"}},
      {"std", {"fashion-mnist", "idx", "cifar10", "pictures", "numpy"}},
      {"shape", {"synthetic", "pictures"}},
      {"classes", {"synthetic"}},
      {"samples", {"synthetic"}},
      {"test_samples", {"synthetic"}},
      {"test_path", {"csv", "numpy", "text", "pictures", "library"}},
      {"validation_path", {"csv", "numpy", "text", "pictures", "library"}},
      {"test_fraction", {"csv", "numpy", "text", "pictures", "library"}},
      {"target", {"csv", "pictures"}},
      {"targets", {"csv"}},
      {"numeric", {"csv"}},
      {"categorical", {"csv"}},
      {"ignore", {"csv"}},
      {"missing", {"csv"}},
      {"delimiter", {"csv", "pictures"}},
      {"decimal", {"csv"}},
      {"encoding", {"csv", "text", "pictures"}},
      {"labels", {"pictures"}},
      {"file_column", {"pictures"}},
      {"header", {"csv"}},
      {"tokens", {"text"}},
      {"window", {"text"}},
      {"library", {"library"}},
      {"library_sha256", {"library"}},
      {"name", {"library"}},
      {"options", {"library"}},
  };
  return keys;
}

void refuse_unused(const Schema& schema, const std::vector<OptimizerKey>& keys, const std::string& value,
                   const std::string& what) {
  for (const OptimizerKey& entry : keys) {
    const std::string path = fmt::format("optimizer.{}", entry.key);
    const bool used = std::find(entry.optimizers.begin(), entry.optimizers.end(), value) != entry.optimizers.end();
    if (!used && schema.chosen(path)) {
      throw schema.invalid(path, fmt::format("has no effect with {} \"{}\"", what, value),
                           fmt::format("It belongs to {}. Remove it, or change optimizer.{}.",
                                       join_words(entry.optimizers), what == "schedule" ? "schedule" : "name"));
    }
  }
}

// The workers are those of the mesh.
void resolve_mesh(const Schema& schema, Job& job) {
  if (job.parallel.mesh.empty()) return;
  const auto workers = static_cast<std::int64_t>(job.parallel.pipeline_mesh().workers());
  const IntegerRange given = job.parallel.workers;
  if (schema.chosen("parallel.workers") && (given.least != workers || given.most != workers)) {
    throw schema.invalid("parallel.workers", fmt::format("the mesh has {} workers", workers),
                         "Remove the key, or change parallel.mesh: workers are data x pipeline x tensor.");
  }
  if (workers > 64)
    throw schema.invalid("parallel.mesh", fmt::format("has {} workers", workers), "There are up to 64.");
  job.parallel.workers = {workers, workers};
}

void resolve_lanes(const Schema& schema, ResolvedJob& resolved) {
  Job& job = resolved.job;
  if (job.data.batch && job.data.lane_batch) {
    throw schema.invalid("data.lane_batch", "cannot stand beside data.batch",
                         "Give batch (samples of a whole step) or lane_batch (samples of each lane), not both.");
  }
  if (job.data.lane_batch) {
    if (!job.lanes) {
      throw schema.invalid("data.lane_batch", "needs job.lanes",
                           "The batch is lane_batch x lanes, so say how many lanes there are.");
    }
    resolved.lanes = static_cast<std::uint64_t>(*job.lanes);
    resolved.batch = resolved.lanes * static_cast<std::uint64_t>(*job.data.lane_batch);
  } else {
    if (!job.data.batch) job.data.batch = kDefaultBatch;
    resolved.batch = static_cast<std::uint64_t>(*job.data.batch);
    if (!job.lanes) job.lanes = static_cast<std::int64_t>(data::default_lanes(resolved.batch));
    resolved.lanes = static_cast<std::uint64_t>(*job.lanes);
  }
  // A lane of a single sample has no spread that BatchNorm could normalise by; only a batch of one may have it.
  if (resolved.lanes > 1 && resolved.batch < 2 * resolved.lanes) {
    throw schema.invalid(
        "job.lanes",
        fmt::format("{} lanes cannot share a batch of {}: a lane needs 2 samples", resolved.lanes, resolved.batch),
        "Lower job.lanes, or raise data.batch or data.lane_batch.");
  }
  // These have neither hosts nor workers that share lanes: keys of them are refused as such (job_rules.h).
  if (job.is_vertical() || job.federated.chosen()) return;
  const auto all_workers = static_cast<std::uint64_t>(job.parallel.workers.most * job.parallel.hosts.most);
  if (job.parallel.hosts.most > 1 && all_workers > resolved.lanes) {
    throw schema.invalid(
        "parallel.hosts",
        fmt::format("{} hosts of {} workers cannot share {} lanes", job.parallel.hosts.most, job.parallel.workers.most,
                    resolved.lanes),
        fmt::format("Lower parallel.hosts or parallel.workers, or set job.lanes to {} or more.", all_workers));
  }
  // Workers of a row compute lanes together.
  if (job.parallel.pipeline_mesh().shares_lanes()) {
    const std::size_t rows = job.parallel.pipeline_mesh().data;
    if (rows <= resolved.lanes) return;
    throw schema.invalid("parallel.mesh", fmt::format("{} rows cannot share {} lanes", rows, resolved.lanes),
                         fmt::format("Lower data, or set job.lanes to {} or more.", rows));
  }
  if (static_cast<std::uint64_t>(job.parallel.workers.most) > resolved.lanes) {
    throw schema.invalid(
        "parallel.workers", fmt::format("{} workers cannot share {} lanes", job.parallel.workers.most, resolved.lanes),
        fmt::format("Lower parallel.workers, or set job.lanes to {} or more.", job.parallel.workers.most));
  }
}

void check_data(const Schema& schema, const Job& job) {
  if (job.data.mean.has_value() != job.data.stddev.has_value()) {
    throw schema.invalid(job.data.mean ? "data.mean" : "data.std", "needs data.mean and data.std together");
  }
  for (const DataKey& entry : data_keys()) {
    const std::string key = fmt::format("data.{}", entry.key);
    const bool used = std::find(entry.sources.begin(), entry.sources.end(), job.data.source) != entry.sources.end();
    if (!used && schema.chosen(key)) {
      throw schema.invalid(key, fmt::format("has no effect with source \"{}\"", job.data.source),
                           fmt::format("It belongs to {}. Remove it.", join_words(entry.sources)));
    }
  }
  if (!job.data.validation_path.empty() && job.data.validation > 0) {
    throw schema.invalid("data.validation_path", "cannot stand beside data.validation",
                         "Give a validation set of its own or hold a part out, not both.");
  }
  if (job.data.source == "pictures" && job.data.labels.empty()) {
    for (const char* key : {"data.target", "data.delimiter", "data.encoding", "data.file_column"}) {
      if (schema.chosen(key))
        throw schema.invalid(key, "has no effect on pictures without data.labels",
                             "Name the CSV file of the labels with data.labels, or remove the key.");
    }
  }
  if (!job.data.targets.empty() && !job.data.target.empty())
    throw schema.invalid("data.targets", "cannot stand beside data.target", "Give one column or several, not both.");
  if (job.data.tokens == "bytes" && schema.chosen("data.encoding"))
    throw schema.invalid("data.encoding", "has no effect where tokens are bytes", "Remove it.");
  // A comma may be both: such numbers stand in quotes.
  if (job.data.decimal == "." && job.data.delimiter == ".")
    throw schema.invalid("data.decimal", "is the delimiter too", "A number could not be told from two fields.");
  const std::string& delimiter = job.data.delimiter;
  if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n" || delimiter == "\r") {
    throw schema.invalid("data.delimiter", fmt::format("found \"{}\"", excerpt(delimiter, 20)),
                         "It is one character, and neither a quote nor a line end.");
  }
}

void resolve_training_data(const Schema& schema, Job& job) {
  check_value(schema, "data.augment", [&] { data::parse_augmentation(job.data.augment); });
  if (!job.is_vertical()) check_value(schema, "data.partition", [&] { data::parse_partition(job.data.partition); });
  if (!job.is_vertical() && job.data.placement != "local" && schema.chosen("data.partition")) {
    throw schema.invalid("data.partition", "has no effect with placement \"any\"", "Set data.placement = \"local\".");
  }
  if (job.data.source == "pictures" && schema.where("data.shape").empty()) job.data.shape = {3, 224, 224};
}

// Which sources have samples for a task. Shards have what was packed into them.
const std::vector<std::string>& sources_of(const std::string& task) {
  static const std::vector<std::string> regression{"csv", "numpy", "packed", "library"};
  static const std::vector<std::string> language{"text", "packed", "library"};
  static const std::vector<std::string> all = data::source_names();
  static const std::vector<std::string> classification = [] {
    std::vector<std::string> names = data::source_names();
    std::erase(names, "text");
    return names;
  }();
  if (task == "library") return all;
  return task == "regression" ? regression : task == "language" ? language : classification;
}

void check_task(const Schema& schema, const Job& job) {
  const std::string& task = job.loss.task;
  const std::vector<std::string>& sources = sources_of(task);
  if (std::find(sources.begin(), sources.end(), job.data.source) == sources.end()) {
    throw schema.invalid("loss.task",
                         fmt::format("\"{}\" cannot be learned from the source \"{}\"", task, job.data.source),
                         job.data.source == "text" ? "Set loss.task = \"language\"."
                                                   : fmt::format("It goes with the sources {}.", join_words(sources)));
  }
  if ((task == "regression" || task == "library") && schema.chosen("loss.label_smoothing"))
    throw schema.invalid("loss.label_smoothing", fmt::format("has no effect with the task \"{}\"", task), "Remove it.");
  if (task != "regression" && job.loss.error)
    throw schema.invalid("loss.error", fmt::format("has no effect with the task \"{}\"", task),
                         "It belongs to regression. Remove it.");
  if (task != "classification" && !job.loss.class_weights.empty())
    throw schema.invalid("loss.class_weights", fmt::format("has no effect with the task \"{}\"", task),
                         "It belongs to classification. Remove it.");
  check_value(schema, "loss.class_weights", [&] { parse_class_weights(job.loss.class_weights); });
  if (task != "regression" && task != "library" && !job.data.targets.empty())
    throw schema.invalid("data.targets", fmt::format("cannot go with the task \"{}\"", task),
                         "Several columns are numbers to predict: set loss.task = \"regression\".");
  if (task != "classification" && data::parse_augmentation(job.data.augment).mixup_alpha)
    throw schema.invalid("data.augment", fmt::format("mixup cannot go with the task \"{}\"", task),
                         "It blends classes. Remove it.");
}

// What suits most data of the kind.
const char* default_model(const Job& job) {
  if (job.loss.task == "language") return "transformer";
  return job.data.source == "csv" ? "mlp" : "cnn";
}

// A part of a user's library: "data" and its `library`, `library_sha256`, `name` and `options`. Another file is another
// part: the hash becomes part of the job, and a resumed run notices a change.
void resolve_library(const Schema& schema, const std::string& section, const std::string& library, std::string& sha256,
                     bool named, const OwnOptions& options) {
  const std::string key = section + ".library";
  if (library.empty()) {
    if (!sha256.empty())
      throw schema.invalid(key + "_sha256", fmt::format("has no effect without {}", key), "Remove the key.");
    if (!options.values().empty())
      throw schema.invalid(section + ".options", fmt::format("has no effect without {}", key),
                           "Only parts from a library have options of their own. Remove it.");
    return;
  }
  if (!named) throw schema.invalid(key, fmt::format("needs {}.name", section), "Say which of its parts is meant.");
  if (sha256.empty()) check_value(schema, key, [&] { sha256 = library_hash(library); });
}

void resolve_own_data_and_task(const Schema& schema, Job& job) {
  if (job.data.source == "library" && job.data.library.empty())
    throw schema.invalid("data.source", "\"library\" needs data.library",
                         "Name the shared object, and with data.name the source in it.");
  if (job.loss.task == "library" && job.loss.library.empty())
    throw schema.invalid("loss.task", "\"library\" needs loss.library",
                         "Name the shared object, and with loss.name the task in it.");
  for (const char* key : {"loss.library", "loss.library_sha256", "loss.name", "loss.options"})
    if (job.loss.task != "library" && schema.chosen(key))
      throw schema.invalid(key, fmt::format("has no effect with the task \"{}\"", job.loss.task),
                           "Set loss.task = \"library\", or remove it.");
  if (job.loss.task == "library" && job.parallel.pipeline_mesh().tensor > 1)
    throw schema.invalid("loss.task", "\"library\" does not go with a mesh of tensors",
                         "There the answers of a model may be divided. Leave tensor out of parallel.mesh.");
  resolve_library(schema, "data", job.data.library, job.data.library_sha256, !job.data.name.empty(), job.data.options);
  resolve_library(schema, "loss", job.loss.library, job.loss.library_sha256, !job.loss.name.empty(), job.loss.options);
}

void resolve_model(const Schema& schema, Job& job) {
  if (!job.model.script.empty()) {
    if (!job.model.options.values().empty())
      throw schema.invalid("model.options", "has no effect with model.script", "The script decides: remove it.");
    for (const auto& [key, given] : {std::pair("model.name", job.model.name.has_value()),
                                     std::pair("model.library", !job.model.library.empty())}) {
      if (given)
        throw schema.invalid("model.script", fmt::format("cannot stand beside {}", key),
                             "Give the name of a model or a TorchScript file, not both.");
    }
    return;
  }
  resolve_library(schema, "model", job.model.library, job.model.library_sha256, job.model.name.has_value(),
                  job.model.options);
  if (!job.model.library.empty()) return;
  if (!job.model.name) job.model.name = default_model(job);
  check_value(schema, "model.name", [&] { model::find_model(*job.model.name); });
}

void check_tuning(const Schema& schema, const Job& job) {
  check_value(schema, "model.unfreeze", [&] { compute::parse_unfreeze(job.model.unfreeze); });
  check_value(schema, "optimizer.lr_factors", [&] { compute::parse_lr_factors(job.optimizer.lr_factors); });
  if (!job.model.init_skip.empty() && job.model.init.empty())
    throw schema.invalid("model.init_skip", "has no effect without model.init");
  if (!job.model.unfreeze.empty() && job.model.freeze.empty())
    throw schema.invalid("model.unfreeze", "has no effect without model.freeze");
  const std::string& name = job.optimizer.name;
  if (!job.optimizer.init.empty() && name != "sgd" && name != "adam" && name != "adamw")
    throw schema.invalid("optimizer.init", fmt::format("torch.optim has no {}", name), "Use sgd, adam or adamw.");
}

void check_strategy(const Schema& schema, const ResolvedJob& resolved) {
  const Job& job = resolved.job;
  const strategies::StrategyChoice& strategy = job.parallel.chosen();
  strategy.check(
      {schema, resolved.lanes, job.parallel.workers.most, job.parallel.hosts.least, job.parallel.hosts.most});
  const strategies::Traits traits = strategy.traits();
  if (job.parallel.hosts.most > 1 && !traits.crosses_hosts) {
    throw schema.invalid("parallel.hosts", fmt::format("{} trains on one host only", strategy.name()),
                         fmt::format("Set parallel.hosts = 1, or use {}.",
                                     strategies::strategies_with(&strategies::Traits::crosses_hosts)));
  }
  if (job.parallel.hosts.least != job.parallel.hosts.most && !traits.replaces_workers) {
    throw schema.invalid(
        "parallel.hosts", fmt::format("a range cannot go with {}: its hosts are fixed", strategy.name()),
        fmt::format("Give one number, or use {}.", strategies::strategies_with(&strategies::Traits::replaces_workers)));
  }
  if (job.parallel.workers.least != job.parallel.workers.most && !traits.replaces_workers) {
    throw schema.invalid(
        "parallel.workers", fmt::format("a range cannot go with {}: its number of workers is fixed", strategy.name()),
        fmt::format("Give one number, or use {}.", strategies::strategies_with(&strategies::Traits::replaces_workers)));
  }
}

void check_batch_norm(const Schema& schema, const ResolvedJob& resolved) {
  const Job& job = resolved.job;
  if (!job.parallel.sync_batch_norm) return;
  const char* const key = "parallel.sync_batch_norm";
  const strategies::StrategyChoice& strategy = job.parallel.chosen();
  if (!strategy.traits().lanes_meet) {
    throw schema.invalid(
        key, fmt::format("cannot go with {}, whose workers compute their lanes each for itself", strategy.name()),
        fmt::format("Use the strategy {}. Or lower job.lanes: larger lanes are what it is for.",
                    strategies::strategies_with(&strategies::Traits::lanes_meet)));
  }
  const std::int64_t workers = job.parallel.workers.most * job.parallel.hosts.most;
  if (resolved.lanes != static_cast<std::uint64_t>(workers)) {
    throw schema.invalid(
        key, fmt::format("needs one lane a worker; there are {} lanes and {} workers", resolved.lanes, workers),
        "Set job.lanes to the number of workers.");
  }
  if (!job.model.script.empty()) {
    throw schema.invalid(key, "cannot reach the batch norms inside a script", "Use a model of the zoo.");
  }
}

// Defaults of the chosen optimizer, written into the job so that the resolved job shows them.
void complete_optimizer(Job& job) {
  auto& o = job.optimizer;
  const auto set = [](std::optional<double>& value, double otherwise) {
    if (!value) value = otherwise;
  };
  if (o.name == "sgd") {
    const compute::Sgd d;
    set(o.lr, d.lr);
    set(o.momentum, d.momentum);
    set(o.dampening, d.dampening);
    set(o.weight_decay, d.weight_decay);
  } else if (o.name == "adam" || o.name == "adamw") {
    const compute::Adam d;
    set(o.lr, d.lr);
    set(o.beta1, d.beta1);
    set(o.beta2, d.beta2);
    set(o.eps, d.eps);
    set(o.weight_decay, o.name == "adam" ? d.weight_decay : compute::AdamW{}.weight_decay);
  } else if (o.name == "lars") {
    const compute::Lars d;
    set(o.lr, d.lr);
    set(o.momentum, d.momentum);
    set(o.weight_decay, d.weight_decay);
    set(o.trust, d.trust);
    set(o.eps, d.eps);
  } else {
    MUSTER_CHECK(o.name == "lamb", "an optimizer that the schema allows has no defaults: " + o.name);
    const compute::Lamb d;
    set(o.lr, d.lr);
    set(o.beta1, d.beta1);
    set(o.beta2, d.beta2);
    set(o.eps, d.eps);
    set(o.weight_decay, d.weight_decay);
  }
}

void resolve(const Schema& schema, ResolvedJob& resolved, const std::string& default_name) {
  Job& job = resolved.job;
  if (job.name.empty()) job.name = default_name;
  if (job.name.find_first_of("/\\") != std::string::npos || job.name.starts_with(".")) {
    throw schema.invalid("job.name", fmt::format("found \"{}\"", job.name),
                         "It names a folder: no slashes, no leading dot.");
  }
  // Before the keys are judged beside each other: advice on keys that do nothing would mislead.
  check_vertical(schema, job);
  refuse_unused(schema, optimizer_keys(), job.optimizer.name, "optimizer");
  refuse_unused(schema, schedule_keys(), job.optimizer.schedule, "schedule");
  const double momentum = job.optimizer.momentum.value_or(job.optimizer.name == "lars" ? compute::Lars{}.momentum
                                                                                       : compute::Sgd{}.momentum);
  if (job.optimizer.nesterov && (momentum <= 0 || job.optimizer.dampening.value_or(0) != 0)) {
    throw schema.invalid("optimizer.nesterov", "needs a momentum above 0 and no dampening");
  }
  if (job.optimizer.schedule == "step" && job.optimizer.milestones.empty()) {
    throw schema.invalid("optimizer.schedule", "\"step\" without milestones never changes the rate",
                         "Give optimizer.milestones = [epochs].");
  }
  if (job.optimizer.scaling == "none" && schema.chosen("optimizer.base_batch")) {
    throw schema.invalid("optimizer.base_batch", "has no effect with scaling \"none\"",
                         "Set optimizer.scaling = \"linear\".");
  }
  check_data(schema, job);
  resolve_training_data(schema, job);
  check_task(schema, job);
  resolve_own_data_and_task(schema, job);
  resolve_model(schema, job);
  check_tuning(schema, job);
  resolve_mesh(schema, job);
  resolve_lanes(schema, resolved);
  check_batch_norm(schema, resolved);
  check_strategy(schema, resolved);
  check_rules(schema, job);
  complete_optimizer(job);
  resolved.lr =
      job.optimizer.scaling == "linear"
          ? compute::scaled_lr(*job.optimizer.lr, static_cast<std::uint64_t>(job.optimizer.base_batch), resolved.batch)
          : *job.optimizer.lr;
  resolved.text = schema.to_toml();
  resolved.json = schema.to_json();
}

std::map<std::string, std::string, std::less<>> places_of(const Schema& schema, const std::string& file) {
  std::map<std::string, std::string, std::less<>> places;
  for (const Section& section : schema.sections()) {
    for (const Field& field : section.fields()) {
      const std::string key = fmt::format("{}.{}", section.name(), field.key());
      const std::string where = schema.where(key);
      places[key] = where.empty() ? file : where;
      for (const auto& [inner, place] : field.inner_places())
        places[fmt::format("{}.{}", key, inner)] = place;
    }
  }
  return places;
}

bool sets_nothing(const Schema& schema) {
  return std::ranges::all_of(places_of(schema, {}), [](const auto& place) { return place.second.empty(); });
}

// `load` fills the schema, `complete` comes after the assignments.
template <typename Load, typename Complete>
ResolvedJob read_job(std::span<const std::string> assignments, const std::string& default_name, const std::string& file,
                     const Load& load, const Complete& complete) {
  ResolvedJob resolved;
  Schema schema = job_schema(resolved.job);
  load(schema);
  for (const std::string& assignment : assignments)
    schema.set(assignment);
  complete(schema, resolved.job);
  resolve(schema, resolved, default_name);
  resolved.places = places_of(schema, file);
  return resolved;
}

// Data in the place of a job is a common slip, and there is a command for it.
void load_file(Schema& schema, const std::filesystem::path& path) {
  try {
    schema.load_file(path);
  } catch (const Error& error) {
    std::error_code ignored;
    if (path.extension() == ".toml" || !std::filesystem::exists(path, ignored)) throw;
    throw Error(
        ErrorKind::kInvalidInput, error.message(), error.where(),
        fmt::format("A job file is wanted here, in TOML. If this is data of yours: muster init {} writes a job for it.",
                    path.string()));
  }
}

}  // namespace

Error ResolvedJob::invalid(std::string_view key, const std::string& message, const std::string& remedy) const {
  const auto place = places.find(key);
  MUSTER_CHECK(place != places.end(), fmt::format("{} is no key of a job", key));
  return {ErrorKind::kInvalidInput, fmt::format("{}: {}", key, message), place->second, remedy};
}

ResolvedJob load_job(const std::filesystem::path& path, std::span<const std::string> assignments) {
  const auto load = [&](Schema& schema) {
    load_file(schema, path);
    // Such a file is the wrong one, or was never filled: training for minutes on the defaults is not what it is for.
    if (assignments.empty() && sets_nothing(schema))
      throw Error(ErrorKind::kInvalidInput, "the job file sets nothing", path.string(),
                  "Name the data at least: [data], and below it source = \"fashion-mnist\". muster init FILE_OR_FOLDER "
                  "writes a job file for data of yours.");
  };
  const auto complete = [&](const Schema& schema, Job& job) { complete_paths(schema, job, path); };
  return read_job(assignments, path.stem().string(), path.string(), load, complete);
}

ResolvedJob parse_job(std::string_view text, const std::string& name, std::span<const std::string> assignments) {
  const auto load = [&](Schema& schema) { schema.load_text(text, name); };
  return read_job(assignments, "job", name, load, [](const Schema&, Job&) {});
}

bool may_differ_when_resumed(const std::string& key) {
  // What may differ: length, early stopping, where and how often things are written, who computes, how data is fetched.
  static const std::set<std::string> kFree{"federated.rounds",
                                           "federated.evaluate_every",
                                           "job.name",
                                           "job.epochs",
                                           "job.steps",
                                           "job.patience",
                                           "job.runs",
                                           "data.path",
                                           "data.test_path",
                                           "data.validation_path",
                                           "data.labels",
                                           "data.access",
                                           "data.cache",
                                           "data.cache_mb",
                                           "data.copies",
                                           "data.library",
                                           "loss.library",
                                           "data.loader_threads",
                                           "data.prefetch",
                                           "model.library",
                                           "model.recompute",
                                           "vertical.checkpoint_steps",
                                           "parallel.workers",
                                           "parallel.mesh",
                                           "parallel.schedule",
                                           "parallel.chunks",
                                           "parallel.cut",
                                           "parallel.claims",
                                           "parallel.liveness_seconds",
                                           "parallel.hang_seconds",
                                           "parallel.start_seconds",
                                           "parallel.orphan_seconds",
                                           "parallel.hosts",
                                           "parallel.interface",
                                           "parallel.host_seconds",
                                           "checkpoint.every_steps",
                                           "checkpoint.every_epochs",
                                           "checkpoint.keep",
                                           "checkpoint.grace_seconds"};
  if (kFree.contains(key)) return true;
  for (const strategies::StrategyChoice& strategy : strategies::all_strategies()) {
    for (const std::string& own : strategy.free_keys())
      if (key == "parallel." + own) return true;
  }
  return false;
}

std::optional<Error> resume_obstacle(std::string_view stored, const ResolvedJob& now) {
  const Json before = parse_job(stored, "the run's job").json;
  for (const auto& [section, keys] : before.items()) {
    std::set<std::string> names;
    for (const auto& [key, value] : keys.items())
      names.insert(key);
    for (const auto& [key, value] : now.json.at(section).items())
      names.insert(key);
    for (const std::string& key : names) {
      const std::string path = section + "." + key;
      if (may_differ_when_resumed(path)) continue;
      const Json was = keys.value(key, Json());
      const Json is = now.json.at(section).value(key, Json());
      if (!same_value(path, was, is)) {
        return Error(ErrorKind::kMismatch,
                     fmt::format("{} is {} now and was {} in the run; it is part of the result and cannot change", path,
                                 is.is_null() ? "not set" : is.dump(), was.is_null() ? "not set" : was.dump()),
                     {}, "Change it back, or start a new run without --resume.");
      }
    }
  }
  return std::nullopt;
}

}  // namespace muster::trainer
