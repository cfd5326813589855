#include "muster/trainer/job.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/data/augment/augmentation.h"
#include "muster/data/partition/partition.h"
#include "muster/strategies/registry.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kMostLanes = 64;
constexpr std::int64_t kDefaultBatch = 64;

std::vector<std::string> source_names() {
  std::vector<std::string> names;
  for (const auto& source : data::sources())
    names.push_back(source.name);
  return names;
}

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
      {"shape", {"synthetic", "pictures"}},
      {"classes", {"synthetic"}},
      {"samples", {"synthetic"}},
      {"test_samples", {"synthetic"}},
      {"test_path", {"csv", "numpy", "text", "pictures"}},
      {"validation_path", {"csv", "numpy", "text", "pictures"}},
      {"test_fraction", {"csv", "numpy", "text", "pictures"}},
      {"target", {"csv"}},
      {"numeric", {"csv"}},
      {"categorical", {"csv"}},
      {"ignore", {"csv"}},
      {"missing", {"csv"}},
      {"delimiter", {"csv"}},
      {"header", {"csv"}},
      {"tokens", {"text"}},
      {"window", {"text"}},
  };
  return keys;
}

void refuse_unused(const Schema& schema, const std::vector<OptimizerKey>& keys, const std::string& chosen,
                   const std::string& what) {
  for (const OptimizerKey& entry : keys) {
    const std::string path = fmt::format("optimizer.{}", entry.key);
    const bool used = std::find(entry.optimizers.begin(), entry.optimizers.end(), chosen) != entry.optimizers.end();
    if (!used && schema.changed(path)) {
      throw schema.invalid(path, fmt::format("has no effect with {} \"{}\"", what, chosen),
                           fmt::format("It belongs to {}. Remove it, or change optimizer.{}.",
                                       join_words(entry.optimizers), what == "schedule" ? "schedule" : "name"));
    }
  }
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
  if (static_cast<std::uint64_t>(job.parallel.workers.most) > resolved.lanes) {
    throw schema.invalid(
        "parallel.workers", fmt::format("{} workers cannot share {} lanes", job.parallel.workers.most, resolved.lanes),
        fmt::format("Lower parallel.workers, or set job.lanes to {} or more.", job.parallel.workers.most));
  }
  if (job.parallel.workers.least != job.parallel.workers.most && job.parallel.strategy != "shared_sync") {
    throw schema.invalid(
        "parallel.workers",
        fmt::format("a range cannot go with {}: its number of workers is fixed", job.parallel.strategy),
        "Give one number, or use the strategy shared_sync.");
  }
}

void check_data(const Schema& schema, const Job& job) {
  if (job.data.mean.has_value() != job.data.stddev.has_value()) {
    throw schema.invalid(job.data.mean ? "data.mean" : "data.std", "needs data.mean and data.std together");
  }
  for (const DataKey& entry : data_keys()) {
    const std::string key = fmt::format("data.{}", entry.key);
    const bool used = std::find(entry.sources.begin(), entry.sources.end(), job.data.source) != entry.sources.end();
    if (!used && schema.changed(key)) {
      throw schema.invalid(key, fmt::format("has no effect with source \"{}\"", job.data.source),
                           fmt::format("It belongs to {}. Remove it.", join_words(entry.sources)));
    }
  }
  if (!job.data.validation_path.empty() && job.data.validation > 0) {
    throw schema.invalid("data.validation_path", "cannot stand beside data.validation",
                         "Give a validation set of its own or hold a part out, not both.");
  }
  const std::string& delimiter = job.data.delimiter;
  if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n" || delimiter == "\r") {
    throw schema.invalid("data.delimiter", fmt::format("found \"{}\"", excerpt(delimiter, 20)),
                         "It is one character, and neither a quote nor a line end.");
  }
}

// What the data layer says of a key's value, as the message of a job file.
template <typename Parse>
void check_words(const Schema& schema, const char* key, const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    const std::string message =
        error.where().empty() ? error.message() : fmt::format("{} {}", error.where(), error.message());
    throw schema.invalid(key, message, error.remedy());
  }
}

void resolve_training_data(const Schema& schema, Job& job) {
  check_words(schema, "data.augment", [&] { data::parse_augmentation(job.data.augment); });
  check_words(schema, "data.partition", [&] { data::parse_partition(job.data.partition); });
  if (job.data.placement != "local" && schema.changed("data.partition")) {
    throw schema.invalid("data.partition", "has no effect with placement \"any\"", "Set data.placement = \"local\".");
  }
  if (job.data.source == "pictures" && !schema.changed("data.shape")) job.data.shape = {3, 224, 224};
}

// Which sources have samples for a task. Shards have what was packed into them.
const std::vector<std::string>& sources_of(const std::string& task) {
  static const std::vector<std::string> regression{"csv", "numpy", "packed"};
  static const std::vector<std::string> language{"text", "packed"};
  static const std::vector<std::string> classification = [] {
    std::vector<std::string> names = source_names();
    std::erase(names, "text");
    return names;
  }();
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
  if (task == "regression" && schema.changed("loss.label_smoothing"))
    throw schema.invalid("loss.label_smoothing", "has no effect on numbers", "Remove it.");
  if (task != "regression" && job.loss.error)
    throw schema.invalid("loss.error", fmt::format("has no effect with the task \"{}\"", task),
                         "It belongs to regression. Remove it.");
  if (task != "classification" && data::parse_augmentation(job.data.augment).mixup_alpha)
    throw schema.invalid("data.augment", fmt::format("mixup cannot go with the task \"{}\"", task),
                         "It blends classes. Remove it.");
}

// What suits most data of the kind.
const char* default_model(const Job& job) {
  if (job.loss.task == "language") return "transformer";
  return job.data.source == "csv" ? "mlp" : "cnn";
}

// Keys of [model] that models of the zoo have or refuse.
constexpr const char* kModelKeys[] = {"model.hidden",    "model.dropout",  "model.activation", "model.norm",
                                      "model.groups",    "model.width",    "model.depth",      "model.heads",
                                      "model.embedding", "model.recompute"};

void resolve_model(const Schema& schema, Job& job) {
  if (!job.model.script.empty()) {
    for (const auto& [key, given] : {std::pair("model.name", job.model.name.has_value()),
                                     std::pair("model.library", !job.model.library.empty())}) {
      if (given)
        throw schema.invalid("model.script", fmt::format("cannot stand beside {}", key),
                             "Give the name of a model or a TorchScript file, not both.");
    }
    for (const char* key : kModelKeys) {
      if (schema.changed(key))
        throw schema.invalid(key, "has no effect with model.script", "The script decides: remove the key.");
    }
    return;
  }
  if (!job.model.library.empty()) {
    if (!job.model.name) throw schema.invalid("model.library", "needs model.name", "Say which of its models is meant.");
    // Another file is another model: the hash becomes part of the job, and a resumed run notices a change.
    if (job.model.library_sha256.empty())
      check_words(schema, "model.library", [&] { job.model.library_sha256 = model::library_hash(job.model.library); });
    return;
  }
  if (!job.model.library_sha256.empty())
    throw schema.invalid("model.library_sha256", "has no effect without model.library", "Remove the key.");
  if (!job.model.name) job.model.name = default_model(job);
  check_words(schema, "model.name", [&] { model::find_model(*job.model.name); });
}

void check_tuning(const Schema& schema, const Job& job) {
  check_words(schema, "model.unfreeze", [&] { compute::parse_unfreeze(job.model.unfreeze); });
  check_words(schema, "optimizer.lr_factors", [&] { compute::parse_lr_factors(job.optimizer.lr_factors); });
  if (!job.model.init_skip.empty() && job.model.init.empty())
    throw schema.invalid("model.init_skip", "has no effect without model.init");
  if (!job.model.unfreeze.empty() && job.model.freeze.empty())
    throw schema.invalid("model.unfreeze", "has no effect without model.freeze");
  const std::string& name = job.optimizer.name;
  if (!job.optimizer.init.empty() && name != "sgd" && name != "adam" && name != "adamw")
    throw schema.invalid("optimizer.init", fmt::format("torch.optim has no {}", name), "Use sgd, adam or adamw.");
}

void check_batch_norm(const Schema& schema, const ResolvedJob& resolved) {
  const Job& job = resolved.job;
  if (!job.parallel.sync_batch_norm) return;
  const char* const key = "parallel.sync_batch_norm";
  if (job.parallel.strategy == "shared_sync") {
    throw schema.invalid(
        key, "cannot go with shared_sync, whose lanes are computed each for itself, in any order",
        "Set parallel.strategy = \"all_reduce\". Or lower job.lanes: larger lanes are what it is for.");
  }
  if (job.parallel.strategy != "all_reduce") {
    throw schema.invalid(key, fmt::format("cannot go with {}, whose workers train alone", job.parallel.strategy),
                         "Set parallel.strategy = \"all_reduce\".");
  }
  if (resolved.lanes != static_cast<std::uint64_t>(job.parallel.workers.most)) {
    throw schema.invalid(key,
                         fmt::format("needs one lane a worker; there are {} lanes and {} workers", resolved.lanes,
                                     job.parallel.workers.most),
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
  refuse_unused(schema, optimizer_keys(), job.optimizer.name, "optimizer");
  refuse_unused(schema, schedule_keys(), job.optimizer.schedule, "schedule");
  if (job.optimizer.nesterov && (job.optimizer.momentum.value_or(0) <= 0 || job.optimizer.dampening.value_or(0) != 0)) {
    throw schema.invalid("optimizer.nesterov", "needs a momentum above 0 and no dampening");
  }
  if (job.optimizer.schedule == "step" && job.optimizer.milestones.empty()) {
    throw schema.invalid("optimizer.schedule", "\"step\" without milestones never changes the rate",
                         "Give optimizer.milestones = [epochs].");
  }
  if (job.optimizer.scaling == "none" && schema.changed("optimizer.base_batch")) {
    throw schema.invalid("optimizer.base_batch", "has no effect with scaling \"none\"",
                         "Set optimizer.scaling = \"linear\".");
  }
  check_data(schema, job);
  resolve_training_data(schema, job);
  check_task(schema, job);
  resolve_model(schema, job);
  check_tuning(schema, job);
  resolve_lanes(schema, resolved);
  check_batch_norm(schema, resolved);
  complete_optimizer(job);
  resolved.lr =
      job.optimizer.scaling == "linear"
          ? compute::scaled_lr(*job.optimizer.lr, static_cast<std::uint64_t>(job.optimizer.base_batch), resolved.batch)
          : *job.optimizer.lr;
  resolved.text = schema.to_toml();
  resolved.json = schema.to_json();
}

template <typename Load>
ResolvedJob read_job(std::span<const std::string> assignments, const std::string& default_name, const Load& load) {
  ResolvedJob resolved;
  Schema schema = job_schema(resolved.job);
  load(schema);
  for (const std::string& assignment : assignments)
    schema.set(assignment);
  resolve(schema, resolved, default_name);
  return resolved;
}

}  // namespace

Schema job_schema(Job& job) {
  constexpr double kMany = 1e15;  // far beyond any run, far below where integers stop being exact as numbers
  Schema schema;
  Section& j = schema.section("job", "What is trained, for how long, and what fixes the bits of the result.");
  j.field("name", &job.name, "Names the run's folder, runs/NAME-TIME. Default: the job file's name.");
  j.field("seed", &job.seed, "Of everything random: first weights, order of samples, dropout.").range(0, kMany);
  j.field("epochs", &job.epochs, "Passes over the training data.").range(1, 1e9);
  j.field("steps", &job.steps, "Steps instead of epochs, when given.").range(1, kMany);
  j.field(
       "lanes", &job.lanes,
       "Parts that each step's batch is cut into; part of the result. Not set: the largest power of two that leaves at "
       "least 32 samples a lane.")
      .range(1, static_cast<double>(kMostLanes));
  j.field("threads", &job.threads, "Threads that compute one lane, in LibTorch and in the BLAS; part of the result.")
      .range(1, 1024);
  j.field("device", &job.device, "Where to compute. A LibTorch with CUDA compiles, but Muster was never run on one.")
      .one_of({"cpu"});
  j.field("patience", &job.patience,
          "Stop early when the validation loss has not improved for so many epochs. Not set: never.")
      .range(1, 1e9);
  j.field("runs", &job.runs, "Folder that holds the runs.").non_empty();
  j.field("ledger", &job.ledger,
          "Record every sample that is loaded, for muster ledger check: 4 bytes a sample and 56 a lane, for ever.");

  Section& d = schema.section("data", "Where samples come from and how many make a step.");
  d.field("source", &job.data.source, "Kind of data.").one_of(source_names());
  d.field("path", &job.data.path,
          "File or folder of the data. Empty: where the source's Debian package puts it, if it has one.");
  d.field("validation", &job.data.validation,
          "Fraction of the training samples held out for validation. 0: validate on the test set.")
      .range(0, 0.9);
  d.field("batch", &job.data.batch, "Samples of a step, over all lanes. Default 64.").range(1, 1e9);
  d.field("lane_batch", &job.data.lane_batch,
          "Instead of batch: samples of each lane, so that more lanes make a larger batch.")
      .range(1, 1e9);
  d.field("mean", &job.data.mean,
          "Per channel, subtracted from pixels in 0..1. Not set: measured on the training set.");
  d.field("std", &job.data.stddev, "Per channel, divides pixels after mean. Not set: measured on the training set.")
      .above(0);
  d.field("shape", &job.data.shape,
          "Of one sample; for the sources synthetic and pictures (channels, height, width; 3, 224, 224 if not set).")
      .range(1, 1e6)
      .non_empty();
  d.field("classes", &job.data.classes, "For the source synthetic.").range(2, 1e6);
  d.field("samples", &job.data.samples, "Training samples; for the source synthetic.").range(1, kMany);
  d.field("test_samples", &job.data.test_samples, "For the source synthetic.").range(1, kMany);
  d.field("test_path", &job.data.test_path,
          "Test set in a file or folder of its own, for csv, numpy, text and pictures. Empty: test_fraction of the "
          "samples is held out.");
  d.field("validation_path", &job.data.validation_path,
          "Validation set in a file or folder of its own, for the same. Empty: as validation says.");
  d.field(
       "test_fraction", &job.data.test_fraction,
       "Part of the samples held out as test set where there is none: csv and numpy by a keyed draw, text at its end.")
      .range(0.001, 0.9);
  d.field(
       "on_bad_sample", &job.data.on_bad_sample,
       "A sample that cannot be used (a cut picture, a line with too few fields): \"fail\" ends the job and names it, "
       "\"skip\" goes on and counts it.")
      .one_of({"fail", "skip"});
  d.field("bad_sample_limit", &job.data.bad_sample_limit,
          "skip: with more bad samples than this the job fails after all.")
      .range(0, kMany);
  d.field("target", &job.data.target, "csv: name of the column to predict. Empty: the last one.");
  d.field("numeric", &job.data.numeric, "csv: names of columns of numbers. Columns in no list are inferred.");
  d.field("categorical", &job.data.categorical, "csv: names of columns whose values are categories.");
  d.field("ignore", &job.data.ignore, "csv: names of columns to leave out.");
  d.field("missing", &job.data.missing,
          "csv: stands for missing numbers. Not set: the mean of the column in the training rows.");
  d.field("delimiter", &job.data.delimiter, "csv: one character between fields.").non_empty();
  d.field("header", &job.data.header,
          "csv: the first line names the columns; false: their names are \"0\", \"1\", ...");
  d.field("tokens", &job.data.tokens, "text: what models read.").one_of({"characters", "bytes"});
  d.field("window", &job.data.window, "text: tokens of a sample.").range(1, 1e6);
  d.field("augment", &job.data.augment,
          "What is done to training pictures, in this order: flip, crop:N, rotate:DEGREES, jitter:S, cutout:N, "
          "random-resized-crop, mixup:ALPHA (docs/data-pictures.md).");
  d.field("placement", &job.data.placement,
          "\"any\": every worker reads any sample. \"local\": every lane has samples of its own, so that a worker "
          "reads only those of its lanes (docs/partitioning.md).")
      .one_of({"any", "local"});
  d.field("partition", &job.data.partition,
          "placement local: which samples a lane has. consecutive, random, hash, balanced, stratified, "
          "dirichlet:ALPHA or file:PATH.");
  d.field("loader_threads", &job.data.loader_threads, "Threads that read samples ahead of training.").range(1, 256);
  d.field("prefetch", &job.data.prefetch, "Lanes that are read ahead.").range(1, 1024);

  Section& m = schema.section("model", "What is trained.");
  m.field(
      "name", &job.model.name,
      "Model of the zoo (muster models lists them), or of the library. Not set: cnn; for the source csv mlp, for the "
      "task language transformer.");
  m.field("script", &job.model.script,
          "Instead of name: a TorchScript file, trained from the weights in it. It is code: use files you trust.");
  m.field("library", &job.model.library,
          "Shared object with models of your own, of which name is one (docs/models.md). It is code: use files you "
          "trust.");
  m.field("library_sha256", &job.model.library_sha256,
          "Hash that the library must have. Not set: of the file there is.");
  m.field("hidden", &job.model.hidden, "mlp, cnn, wide_deep: widths of the hidden layers. Empty: the model's own.")
      .range(1, 1e6);
  m.field("dropout", &job.model.dropout,
          "mlp, cnn, wrn-D-K, lstm, gru, transformer, wide_deep: probability of dropping an activation. Not set: the "
          "model's own.")
      .range(0, 0.99);
  m.field("activation", &job.model.activation, "Of mlp, wide_deep and all convolutional models. Not set: relu.")
      .one_of({"relu", "leaky_relu"});
  m.field("norm", &job.model.norm, "Of all convolutional models. Not set: batch.").one_of({"batch", "group"});
  m.field("groups", &job.model.groups,
          "norm group: groups of channels. Not set: up to 32, of at least two channels each.")
      .range(1, 1e6);
  m.field("width", &job.model.width, "lstm, gru, transformer: width of the state. Not set: 256.").range(1, 1e6);
  m.field("depth", &job.model.depth, "lstm, gru, transformer: layers. Not set: 2; 4 for the transformer.")
      .range(1, 1e4);
  m.field("heads", &job.model.heads, "transformer: heads of attention. Not set: 4.").range(1, 1e4);
  m.field("embedding", &job.model.embedding, "lstm, gru, wide_deep: width of an embedding. Not set: the model's own.")
      .range(1, 1e6);
  m.field(
      "recompute", &job.model.recompute,
      "ResNets and transformer: blocks keep only their input for backward and are computed again there. Less memory, "
      "more time, the same bits.");
  m.field(
      "init", &job.model.init,
      "File of weights to begin from: safetensors or PyTorch's .pth. Every tensor of the model must be in it, but for "
      "those of init_skip.");
  m.field("init_skip", &job.model.init_skip,
          "Patterns of tensors that are begun anew in spite of init, a new last layer for example: [\"fc.*\"]. A star "
          "stands for any characters.");
  m.field(
      "freeze", &job.model.freeze,
      "Patterns of tensors that do not train. A batch norm that is frozen normalises by its statistics, which stay.");
  m.field("unfreeze", &job.model.unfreeze,
          "Ends freeze for a pattern once so many epochs are finished: [\"layer4.*=2\"]. The last that fits counts.");

  Section& l = schema.section("loss", "What is minimised.");
  l.field("task", &job.loss.task,
          "What the model is asked for: a class, numbers, or the next token of a text at every position "
          "(docs/training.md).")
      .one_of({"classification", "regression", "language"});
  l.field("label_smoothing", &job.loss.label_smoothing,
          "classification, language: share of the target spread over all classes.")
      .range(0, 0.99);
  l.field("error", &job.loss.error, "regression: squared, absolute or Huber error. Not set: mse.")
      .one_of({"mse", "mae", "huber"});

  auto& opt = job.optimizer;
  Section& o = schema.section("optimizer",
                              "How the parameters follow the gradient. Keys that the chosen optimizer or "
                              "schedule does not know are errors.");
  o.field("name", &opt.name, "LARS and LAMB are made for large batches.")
      .one_of({"sgd", "adam", "adamw", "lars", "lamb"});
  o.field("lr", &opt.lr, "Learning rate. Not set: the optimizer's own default.").above(0);
  o.field("momentum", &opt.momentum, "sgd, lars.").range(0, 0.9999);
  o.field("dampening", &opt.dampening, "sgd.").range(0, 1);
  o.field("nesterov", &opt.nesterov, "sgd, lars.");
  o.field("weight_decay", &opt.weight_decay, "L2 in the gradient; decoupled for adamw and lamb.").range(0);
  o.field("beta1", &opt.beta1, "adam, adamw, lamb.").range(0, 0.999999);
  o.field("beta2", &opt.beta2, "adam, adamw, lamb.").range(0, 0.999999);
  o.field("eps", &opt.eps, "adam, adamw, lars, lamb.").above(0);
  o.field("trust", &opt.trust, "lars: the trust coefficient.").above(0);
  o.field("exempt", &opt.exempt, "Which tensors weight decay and trust ratios leave alone.")
      .one_of(compute::exemption_names());
  o.field("lr_factors", &opt.lr_factors,
          "Factors of the learning rate for patterns of parameters: [\"layer1.*=0.1\"]. The last that fits counts; 1 "
          "where none fits.");
  o.field("init", &opt.init,
          "State of torch.optim's SGD, Adam or AdamW from Python (.pth), to go on from. Not set: none.");
  o.field("clip_norm", &opt.clip_norm, "Largest norm of the whole gradient. Not set: no clipping.").above(0);
  o.field("schedule", &opt.schedule, "How the rate changes after warm-up.").one_of(compute::schedule_names());
  o.field("warmup_epochs", &opt.warmup_epochs, "Epochs in which the rate rises to its full value; may be a fraction.")
      .range(0, 1e9);
  o.field("warmup_start", &opt.warmup_start, "Fraction of the rate at which warm-up starts.").range(0, 1);
  o.field("milestones", &opt.milestones, "step: epochs at which the rate is multiplied by gamma.").range(0, 1e9);
  o.field("gamma", &opt.gamma, "step.").above(0);
  o.field("power", &opt.power, "polynomial.").above(0);
  o.field("final_fraction", &opt.final_fraction, "cosine, polynomial: the rate at the end, as a fraction.").range(0, 1);
  o.field("scaling", &opt.scaling,
          "\"linear\": lr is for base_batch samples, and grows with the batch (32 to 256: 8 times).")
      .one_of({"none", "linear"});
  o.field("base_batch", &opt.base_batch, "The batch for which lr was tuned.").range(1, 1e9);

  Section& p = schema.section("parallel", "Who computes. With shared_sync it changes speed, never the result.");
  p.field("strategy", &job.parallel.strategy, "How workers become one.").one_of(strategies::strategy_names());
  p.field("workers", &job.parallel.workers,
          "Worker processes on this machine. A range as \"1:4\" starts with the most, and muster scale changes it "
          "(shared_sync).")
      .range(1, 64);
  p.field("claims", &job.parallel.claims,
          "Who computes which lane: dynamic lets a worker that is done take lanes that others have not begun.")
      .one_of({"static", "dynamic"});
  p.field("liveness_seconds", &job.parallel.liveness_seconds,
          "shared_sync: a worker without a sign of life for so long is killed and replaced.")
      .range(0.5, 3600);
  p.field(
       "hang_seconds", &job.parallel.hang_seconds,
       "shared_sync: a worker that computes one lane for longer than this, and than ten steps usually take, is killed "
       "and replaced.")
      .range(0.5, 86400);
  p.field("orphan_seconds", &job.parallel.orphan_seconds,
          "shared_sync: workers whose coordinator was killed go on for so long; muster attach takes them over. Then "
          "they write a checkpoint and end.")
      .range(0, 86400);
  p.field("bucket_kb", &job.parallel.bucket_kb, "all_reduce: size of the pieces that gradients are summed in.")
      .range(64, 1 << 20);
  p.field("sync_batch_norm", &job.parallel.sync_batch_norm,
          "all_reduce, one lane a worker: batch norms of zoo models use the samples of all workers.");
  p.field("overlap", &job.parallel.overlap, "all_reduce: sum the pieces while backward goes on; the same result.");
  p.field("period", &job.parallel.period, "local_sgd: steps from average to average; 0: an epoch.").range(0, kMany);
  p.field("averaged_steps", &job.parallel.averaged_steps,
          "local_sgd: so many steps at the start are averaged one by one (post-local SGD).")
      .range(0, kMany);
  p.field("outer_lr", &job.parallel.outer_lr, "local_sgd: rate of the averaged change.").range(1e-6, 10);
  p.field("outer_momentum", &job.parallel.outer_momentum, "local_sgd: momentum of the averaged change.")
      .range(0, 0.999);
  p.field("average_state", &job.parallel.average_state,
          "local_sgd: average the optimizer's state too; false: each worker keeps its own.");

  Section& c = schema.section("checkpoint", "What survives when everything dies.");
  c.field("every_steps", &job.checkpoint.every_steps,
          "Also checkpoint after so many steps; \"auto\": as often as measured cost and failures make it pay. Not set: "
          "only "
          "at epochs.")
      .range(1, kMany);
  c.field("every_epochs", &job.checkpoint.every_epochs, "Checkpoint after so many epochs.").range(1, 1e9);
  c.field("keep", &job.checkpoint.keep, "Newest checkpoints that stay, besides the best.").range(1, 1e6);
  c.field("grace_seconds", &job.checkpoint.grace_seconds,
          "After Ctrl-C or SIGTERM: longest time until the process ends, with or without its checkpoint.")
      .range(0.1, 3600);
  return schema;
}

ResolvedJob load_job(const std::filesystem::path& path, std::span<const std::string> assignments) {
  return read_job(assignments, path.stem().string(), [&](Schema& schema) { schema.load_file(path); });
}

ResolvedJob parse_job(std::string_view text, const std::string& name, std::span<const std::string> assignments) {
  return read_job(assignments, "job", [&](Schema& schema) { schema.load_text(text, name); });
}

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
  options.table.regression = job.loss.task == "regression";
  options.table.numeric = job.data.numeric;
  options.table.categorical = job.data.categorical;
  options.table.ignore = job.data.ignore;
  if (job.data.missing) options.table.missing_value = static_cast<float>(*job.data.missing);
  options.text.bytes = job.data.tokens == "bytes";
  options.text.window = job.data.window;
  if (job.data.mean) {
    options.normalization = data::Normalization{{job.data.mean->begin(), job.data.mean->end()},
                                                {job.data.stddev->begin(), job.data.stddev->end()}};
  }
  return options;
}

model::ModelOptions model_options(const Job& job) {
  const auto& m = job.model;
  model::ModelOptions options;
  options.name = m.name.value_or("");
  options.script = m.script;
  options.library = m.library;
  options.library_sha256 = m.library_sha256;
  if (!m.hidden.empty()) options.hidden = m.hidden;
  options.dropout = m.dropout;
  options.activation = m.activation;
  options.norm = m.norm;
  options.groups = m.groups;
  options.width = m.width;
  options.depth = m.depth;
  options.heads = m.heads;
  options.embedding = m.embedding;
  options.recompute = m.recompute;
  return options;
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

bool may_differ_when_resumed(const std::string& key) {
  // What may differ: length, early stopping, where and how often things are written, who computes, how data is fetched.
  static const std::set<std::string> kFree{"job.name",
                                           "job.epochs",
                                           "job.steps",
                                           "job.patience",
                                           "job.runs",
                                           "data.path",
                                           "data.test_path",
                                           "data.validation_path",
                                           "data.loader_threads",
                                           "data.prefetch",
                                           "model.library",
                                           "model.recompute",
                                           "parallel.workers",
                                           "parallel.claims",
                                           "parallel.liveness_seconds",
                                           "parallel.hang_seconds",
                                           "parallel.orphan_seconds",
                                           "parallel.bucket_kb",
                                           "parallel.overlap",
                                           "checkpoint.every_steps",
                                           "checkpoint.every_epochs",
                                           "checkpoint.keep",
                                           "checkpoint.grace_seconds"};
  return kFree.contains(key);
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
      if (was != is) {
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
