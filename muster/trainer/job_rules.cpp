#include "muster/trainer/job_rules.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/data/augment/augmentation.h"
#include "muster/model/registry.h"
#include "muster/strategies/parameter_server/consistency.h"

namespace muster::trainer {
namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

const Field& field_of(const Schema& schema, std::string_view key) {
  for (const Section& section : schema.sections()) {
    for (const Field& field : section.fields())
      if (key == fmt::format("{}.{}", section.name(), field.key())) return field;
  }
  MUSTER_CHECK(false, fmt::format("{} is no key of a job", key));
}

// Nobody names most keys by hand: such a file is a resolved job, of a run or as muster check prints it.
bool is_printed(const Schema& schema) {
  std::size_t keys = 0;
  std::size_t named = 0;
  for (const Section& section : schema.sections()) {
    for (const Field& field : section.fields()) {
      const std::string where = schema.where(fmt::format("{}.{}", section.name(), field.key()));
      named += !where.empty() && !where.starts_with("--set ");
      ++keys;
    }
  }
  return 2 * named > keys;
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
    if (!chosen(schema, key) || contains(entry.options, option)) continue;
    if (script) throw schema.invalid(key, "has no effect with model.script", "The script decides: remove the key.");
    throw schema.invalid(
        key, fmt::format("the model \"{}\" has no such option; it has {}", entry.name, join_words(entry.options)),
        fmt::format("Remove it, or choose a model that has it: {}.", join_words(models_with(option))));
  }
  if (job.model.groups && job.model.norm.value_or("batch") != "group")
    throw schema.invalid("model.groups", "has no effect with norm \"batch\"", "Set model.norm = \"group\".");
}

// Keys of [parallel] that only some strategies look at. Those of parameter servers are refused elsewhere.
void check_strategy(const Schema& schema, const Job& job) {
  struct Rule {
    const char* key;
    std::vector<std::string> strategies;
  };
  static const std::vector<std::string> replacing{"shared_sync", "parameter_server"};
  static const std::vector<Rule> rules{
      {"liveness_seconds", replacing},   {"hang_seconds", replacing}, {"orphan_seconds", replacing},
      {"bucket_kb", {"all_reduce"}},     {"overlap", {"all_reduce"}}, {"period", {"local_sgd"}},
      {"averaged_steps", {"local_sgd"}}, {"outer_lr", {"local_sgd"}}, {"outer_momentum", {"local_sgd"}},
      {"average_state", {"local_sgd"}},
  };
  for (const Rule& rule : rules) {
    const std::string key = fmt::format("parallel.{}", rule.key);
    if (!chosen(schema, key) || contains(rule.strategies, job.parallel.strategy)) continue;
    throw schema.invalid(key, fmt::format("has no effect with strategy \"{}\"", job.parallel.strategy),
                         fmt::format("It belongs to {}. Remove it.", join_words(rule.strategies)));
  }
}

// Keys that only some ways of consistency look at.
void check_consistency(const Schema& schema, const Job& job) {
  if (job.parallel.strategy != "parameter_server") return;
  using strategies::Consistency;
  struct Rule {
    const char* key;
    std::vector<Consistency> of;
    const char* words;
  };
  static const std::vector<Rule> rules{
      {"parallel.staleness", {Consistency::kSsp}, "ssp"},
      {"parallel.backups", {Consistency::kBackup}, "backup"},
      {"parallel.staleness_rate", {Consistency::kAsp, Consistency::kSsp}, "asp and ssp"},
  };
  const std::vector<strategies::Phase> phases = strategies::parse_phases(job.parallel.consistency);
  for (const Rule& rule : rules) {
    const bool used = std::ranges::any_of(
        phases, [&](const strategies::Phase& phase) { return std::ranges::count(rule.of, phase.consistency) > 0; });
    if (used || !chosen(schema, rule.key)) continue;
    throw schema.invalid(rule.key, fmt::format("has no effect with consistency \"{}\"", job.parallel.consistency),
                         fmt::format("It belongs to {}. Remove it, or change parallel.consistency.", rule.words));
  }
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
  if (d.on_bad_sample == "fail" && chosen(schema, "data.bad_sample_limit"))
    throw schema.invalid("data.bad_sample_limit", "has no effect with on_bad_sample \"fail\"",
                         "Set data.on_bad_sample = \"skip\".");
  if (!d.test_path.empty() && chosen(schema, "data.test_fraction"))
    throw schema.invalid("data.test_fraction", "has no effect beside data.test_path", "Remove one of them.");
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
  if (job.optimizer.warmup_epochs == 0 && chosen(schema, "optimizer.warmup_start"))
    throw schema.invalid("optimizer.warmup_start", "has no effect without a warm-up", "Set optimizer.warmup_epochs.");
  if (job.optimizer.dampening.value_or(0) != 0 && job.optimizer.momentum.value_or(compute::Sgd{}.momentum) == 0)
    throw schema.invalid("optimizer.dampening", "has no effect without optimizer.momentum", "Set a momentum above 0.");
}

}  // namespace

bool chosen(const Schema& schema, std::string_view key) {
  if (schema.changed(key)) return true;
  const std::string where = schema.where(key);
  // Without a line in the file the default is nobody's choice; given by --set it takes back what the file says.
  if (where.empty() || where.starts_with("--set ")) return false;
  const std::string value = field_of(schema, key).to_toml().value_or("");
  return value != "\"\"" && value != "[]" && !is_printed(schema);
}

void check_rules(const Schema& schema, const Job& job) {
  check_model(schema, job);
  check_strategy(schema, job);
  check_consistency(schema, job);
  check_columns(schema, job);
  check_samples(schema, job);
  check_optimizer(schema, job);
}

}  // namespace muster::trainer
