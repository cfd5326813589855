// Tables of which keys belong to which choice, and one check for each table. A key with its default written out is
// somebody's wish too, unless the file is a resolved job as we print it.
#include "muster/trainer/job_rules.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/text.h"
#include "muster/data/augment/augmentation.h"
#include "muster/model/registry.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::trainer {
namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// The options of models, by their keys of [model].
constexpr const char* kModelOptions[] = {"hidden", "dropout", "activation", "norm",      "groups",
                                         "width",  "depth",   "heads",      "embedding", "recompute"};

std::vector<std::string> models_with(std::string_view option) {
  std::vector<std::string> names;
  for (const model::ModelEntry& entry : model::models()) {
    if (contains(entry.options, option)) names.push_back(entry.name);
  }
  return names;
}

void check_model(const Schema& schema, const Job& job) {
  const bool script = !job.model.script.empty();
  if (!job.model.library.empty()) return;  // its models take what they like
  const model::ModelEntry entry = script ? model::ModelEntry{} : model::find_model(*job.model.name);
  for (const char* option : kModelOptions) {
    const std::string key = fmt::format("model.{}", option);
    if (!schema.chosen(key) || contains(entry.options, option)) continue;
    if (script) throw schema.invalid(key, "has no effect with model.script", "The script decides: remove the key.");
    throw schema.invalid(
        key, fmt::format("the model \"{}\" has no such option; it has {}", entry.name, join_words(entry.options)),
        fmt::format("Remove it, or choose a model that has it: {}.", join_words(models_with(option))));
  }
  if (job.model.groups && job.model.norm.value_or("batch") != "group")
    throw schema.invalid("model.groups", "has no effect with norm \"batch\"", "Set model.norm = \"group\".");
}

// Keys of [parallel] that only some strategies look at: each one's own, and those for workers that are replaced.
void check_strategy(const Schema& schema, const Job& job) {
  const strategies::StrategyChoice& strategy = job.parallel.chosen();
  const auto refuse = [&](const std::string& key, const std::string& belongs_to) {
    const std::string path = fmt::format("parallel.{}", key);
    if (!schema.chosen(path)) return;
    throw schema.invalid(path, fmt::format("has no effect with strategy \"{}\"", strategy.name()),
                         fmt::format("It belongs to {}. Remove it, or change parallel.strategy.", belongs_to));
  };
  for (const strategies::StrategyChoice& other : job.parallel.strategies) {
    if (other.is_kind_of(strategy)) continue;
    for (const std::string& key : other.keys())
      refuse(key, other.name());
  }
  if (!strategy.traits().claims_lanes) refuse("claims", strategies::strategies_with(&strategies::Traits::claims_lanes));
  // What one worker has measured would decide.
  if (strategy.traits().saves_together() && job.checkpoint.every_steps && job.checkpoint.every_steps->automatic &&
      schema.chosen("checkpoint.every_steps"))
    throw schema.invalid("checkpoint.every_steps",
                         fmt::format("\"auto\" has no effect with strategy \"{}\"", strategy.name()),
                         "Give a number of steps, or leave it out: a checkpoint is written after every epoch then.");
  if (strategy.traits().replaces_workers) return;
  // On several hosts it is seen that workers are silent, also of those that are not replaced.
  std::vector<std::string> keys{"hang_seconds", "start_seconds"};
  if (job.parallel.hosts.most == 1) keys.insert(keys.end(), {"liveness_seconds", "orphan_seconds"});
  for (const std::string& key : keys)
    refuse(key, strategies::strategies_with(&strategies::Traits::replaces_workers));
}

// Keys of a pipeline, and what a pipeline cannot be with.
void check_mesh(const Schema& schema, const Job& job) {
  const auto& p = job.parallel;
  const bool pipeline = p.pipeline_mesh().pipeline > 1;
  for (const char* key : {"parallel.schedule", "parallel.chunks", "parallel.cut"}) {
    if (!pipeline && schema.chosen(key))
      throw schema.invalid(key, "has no effect without a pipeline",
                           "Set parallel.mesh = { pipeline = 2 }, or remove it.");
  }
  if (p.chunks && p.schedule != "interleaved")
    throw schema.invalid("parallel.chunks", fmt::format("has no effect with schedule \"{}\"", p.schedule),
                         "Set parallel.schedule = \"interleaved\", or remove it.");
  if (!p.pipeline_mesh().shares_lanes()) return;
  if (!p.chosen().traits().passes_lanes)
    throw schema.invalid(
        "parallel.mesh", fmt::format("{} has no {}", p.chosen().name(), pipeline ? "pipelines" : "teams"),
        fmt::format("Use the strategy {}.", strategies::strategies_with(&strategies::Traits::passes_lanes)));
  if (p.hosts.most > 1)
    throw schema.invalid("parallel.mesh",
                         "those who compute a lane together are on one host, and parallel.hosts allows several",
                         "Start it on one host, without parallel.hosts; or leave pipeline and tensor out.");
  if (p.claims == "dynamic" && schema.chosen("parallel.claims"))
    throw schema.invalid("parallel.claims", "lanes belong to the rows of the mesh", "Remove the key.");
}

// Workers that are ranks of an MPI are as many as its processes: one on each host.
void check_network(const Schema& schema, const Job& job) {
  const auto& p = job.parallel;
  if (p.network != "mpi") return;
  if (p.chosen().traits().needs_servers)
    throw schema.invalid(
        "parallel.network",
        fmt::format("workers of {} send to servers, by calls of their own and not by MPI", p.chosen().name()),
        "Remove the key, or use a strategy without servers.");
  if (p.hosts.most == 1 || p.workers.most == 1) return;
  throw schema.invalid(
      "parallel.network",
      fmt::format("MPI knows one process on each host, and parallel.workers allows {} workers there", p.workers.most),
      "Set parallel.workers = 1 (job.threads gives it more cores), or use gloo.");
}

// A column stands in one list at most, and the target in none that contradicts it.
void check_columns(const Schema& schema, const Job& job) {
  const auto& d = job.data;
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"data.numeric", &d.numeric}, {"data.categorical", &d.categorical}, {"data.ignore", &d.ignore}};
  for (auto list = std::begin(lists); list != std::end(lists); ++list) {
    for (const std::string& column : *list->second) {
      for (auto other = std::begin(lists); other != list; ++other) {
        if (contains(*other->second, column))
          throw schema.invalid(list->first, fmt::format("column \"{}\" stands in {} too", column, other->first),
                               "Name it in one of them.");
      }
    }
  }
  const bool regression = job.loss.task == "regression";
  const auto& [key, wrong] = lists[regression ? 1 : 0];
  std::vector<std::string> targets = d.targets;
  if (!d.target.empty()) targets.push_back(d.target);
  for (const std::string& target : targets) {
    if (contains(*wrong, target))
      throw schema.invalid(
          key,
          fmt::format("column \"{}\" is {}, which {} reads as {}", target,
                      d.targets.empty() ? "the target" : "a target", job.loss.task, regression ? "numbers" : "classes"),
          "Remove it here, or change loss.task.");
    if (contains(d.ignore, target))
      throw schema.invalid("data.ignore",
                           fmt::format("column \"{}\" is {}", target, d.targets.empty() ? "the target" : "a target"),
                           "Remove it here.");
  }
}

void check_samples(const Schema& schema, const Job& job) {
  const auto& d = job.data;
  if (d.on_bad_sample == "fail" && schema.chosen("data.bad_sample_limit"))
    throw schema.invalid("data.bad_sample_limit", "has no effect with on_bad_sample \"fail\"",
                         "Set data.on_bad_sample = \"skip\".");
  if (!d.test_path.empty() && schema.chosen("data.test_fraction"))
    throw schema.invalid("data.test_fraction", "has no effect beside data.test_path", "Remove one of them.");
  if (d.access != "shared" && d.source != "packed")
    throw schema.invalid("data.access",
                         fmt::format("\"{}\" is for the source packed, not for \"{}\"", d.access, d.source),
                         "Write the data as shards (muster data pack), and name these in data.source and data.path.");
  for (const char* key : {"data.cache", "data.cache_mb"}) {
    if (d.access == "shared" && schema.chosen(key))
      throw schema.invalid(key, "has no effect with access \"shared\"",
                           "Set data.access = \"fetch\" or \"copy\", or remove it.");
  }
  if (d.access != "copy" && schema.chosen("data.copies"))
    throw schema.invalid("data.copies", fmt::format("has no effect with access \"{}\"", d.access),
                         "Set data.access = \"copy\", or remove it.");
  const data::Augmentation augmentation = data::parse_augmentation(d.augment);
  if (!augmentation.steps.empty() && (d.source == "csv" || d.source == "text"))
    throw schema.invalid("data.augment", fmt::format("is for pictures, not for the source \"{}\"", d.source),
                         "Remove it.");
  if (augmentation.resized_crop_area && d.source != "pictures")
    throw schema.invalid("data.augment",
                         fmt::format("random-resized-crop is for pictures, not for the source \"{}\"", d.source),
                         "Use crop:N instead.");
}

void check_optimizer(const Schema& schema, const Job& job) {
  if (job.optimizer.warmup_epochs == 0 && schema.chosen("optimizer.warmup_start"))
    throw schema.invalid("optimizer.warmup_start", "has no effect without a warm-up", "Set optimizer.warmup_epochs.");
  if (job.optimizer.dampening.value_or(0) != 0 && job.optimizer.momentum.value_or(compute::Sgd{}.momentum) == 0)
    throw schema.invalid("optimizer.dampening", "has no effect without optimizer.momentum", "Set a momentum above 0.");
}

// What has a meaning for steps of a whole job, and none for those of clients, which begin anew in every round.
void check_federated(const Schema& schema, const Job& job) {
  job.federated.check(schema);
  if (!job.federated.chosen()) return;
  const auto refuse = [&](const char* key, const char* instead) {
    if (schema.chosen(key)) throw schema.invalid(key, "has no effect on federated training", instead);
  };
  const auto& opt = job.optimizer;
  if (job.federated.controls() && (opt.name != "sgd" || opt.momentum.value_or(compute::Sgd{}.momentum) != 0 ||
                                   opt.clip_norm || !opt.lr_factors.empty()))
    throw schema.invalid(
        "federated.algorithm",
        "scaffold's controls are mean gradients, which follow from how far a client has moved only with "
        "plain SGD",
        "Use optimizer.name = \"sgd\" without momentum, clip_norm and lr_factors.");
  if (job.federated.sample_noise > 0 &&
      std::ranges::any_of(job.data.augment, [](const std::string& word) { return word.starts_with("mixup"); }))
    throw schema.invalid("data.augment",
                         "mixup makes one sample of two, and federated.sample_noise bounds each by itself",
                         "Leave mixup out.");
  for (const char* key : {"optimizer.schedule", "optimizer.warmup_epochs"})
    refuse(key, "Use federated.lr_decay, or remove it.");
  refuse("parallel.workers", "The result does not depend on it: muster federated simulate --workers N.");
  for (const char* key : {"job.epochs", "job.steps"})
    refuse(key, "Use federated.rounds and federated.local_epochs.");
  for (const char* key : {"job.ledger", "job.patience", "data.validation", "data.validation_path", "data.placement",
                          "model.unfreeze", "optimizer.init", "parallel.hosts", "parallel.mesh", "parallel.strategy"})
    refuse(key, "Remove it.");
}

}  // namespace

// Split training has nets of its own, and no session: what only these look at.
void check_vertical(const Schema& schema, const Job& job) {
  job.vertical.check(schema, job.is_vertical());
  if (!job.is_vertical()) return;
  if (job.data.source != "csv")
    throw schema.invalid("data.source", "columns of the same rows are those of tables", "Set data.source = \"csv\".");
  for (const char* key : {"job.steps",
                          "job.patience",
                          "job.ledger",
                          "data.validation",
                          "data.validation_path",
                          "data.test_path",
                          "data.placement",
                          "data.lane_batch",
                          "model.script",
                          "model.library",
                          "model.dropout",
                          "model.activation",
                          "model.init",
                          "model.freeze",
                          "model.unfreeze",
                          "loss.class_weights",
                          "optimizer.schedule",
                          "optimizer.warmup_epochs",
                          "optimizer.init",
                          "optimizer.lr_factors",
                          "parallel.strategy",
                          "parallel.workers",
                          "parallel.hosts",
                          "parallel.mesh",
                          "checkpoint.every_steps",
                          "checkpoint.every_epochs",
                          "checkpoint.keep",
                          "federated.clients"}) {
    if (schema.chosen(key)) throw schema.invalid(key, "has no effect on vertical training", "Remove it.");
  }
  if (job.model.name && *job.model.name != "mlp")
    throw schema.invalid("model.name", "split training has perceptrons", "Remove it: model.hidden is the upper one's.");
}

void check_rules(const Schema& schema, const Job& job) {
  check_model(schema, job);
  check_strategy(schema, job);
  check_mesh(schema, job);
  check_network(schema, job);
  check_columns(schema, job);
  check_samples(schema, job);
  check_optimizer(schema, job);
  check_federated(schema, job);
}

}  // namespace muster::trainer
