// A trial's folder is whole when it has its name: it is made under another one and renamed, so that a tuner that is
// killed leaves no half of one.
#include "muster/cli/tune/job_subject.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/figure_names.h"
#include "muster/trainer/job_changes.h"
#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_failure.h"
#include "muster/trainer/run_inputs.h"
#include "muster/tuning/study_log.h"

namespace muster::cli {
namespace {

using tuning::Assignment;
using tuning::Kind;
using tuning::Parameter;
using tuning::Trial;

constexpr std::uint64_t kLargestManifest = 64 << 20;

// The step of the checkpoint in which a run had finished so many epochs.
std::uint64_t checkpoint_at(const std::filesystem::path& run, std::uint64_t epochs) {
  const model::CheckpointStore store(run / "checkpoints");
  for (const std::uint64_t step : store.list()) {
    const std::filesystem::path file = store.path_of(step) / "manifest.json";
    const model::Manifest manifest = model::parse_manifest(read_text(file, kLargestManifest), file.string());
    if (manifest.epoch == epochs && manifest.position == 0) return step;
  }
  throw Error(ErrorKind::kNotFound, fmt::format("has no checkpoint of epoch {} any more", epochs), run.string(),
              "Set checkpoint.keep of the job higher: copies begin from checkpoints of others.");
}

void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code code;
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, code);
  if (!code) return;
  errno = code.value();
  throw_system_error("cannot be copied", from);
}

// Numbers of a validation that a trial can be judged by.
std::vector<std::string> figures_in(const Json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) {
    if (value.is_number() && name != "epoch" && name != "step") names.push_back(name);
  }
  return names;
}

// One value of each kind that a parameter can have: its ends, or all of its choices.
std::vector<tuning::Value> samples_of(const Parameter& parameter) {
  if (parameter.kind == Kind::kChoice) return parameter.choices;
  return {parameter.from_unit(0.0), parameter.from_unit(1.0)};
}

}  // namespace

std::vector<std::string> assignments_of(const Assignment& values) {
  std::vector<std::string> words;
  for (const auto& [key, value] : values.entries())
    words.push_back(fmt::format("{}={}", key, tuning::to_toml(value)));
  return words;
}

Assignment largest_values(const tuning::Space& space) {
  return space.from_units(std::vector<double>(space.size(), 1.0));
}

void check_space(const tuning::StudyFile& study, const std::filesystem::path& job) {
  for (const Parameter& parameter : study.space.parameters()) {
    for (const tuning::Value& value : samples_of(parameter)) {
      trainer::Job any;
      try {
        trainer::job_schema(any).set(fmt::format("{}={}", parameter.name, tuning::to_toml(value)));
      } catch (const Error& error) {
        throw Error(ErrorKind::kInvalidInput, error.message(), study.where(parameter.name), error.remedy());
      }
    }
  }
  const trainer::ResolvedJob alone = trainer::load_job(job);  // what is wrong with the job itself is said of the job
  for (const Parameter& parameter : study.space.parameters()) {
    const auto place = alone.places.find(parameter.name);
    if (parameter.when.empty() || place == alone.places.end() || place->second == job.string()) continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} has a condition, and stands in {} too: a trial without it would get it from there",
                            parameter.name, place->second),
                study.where(parameter.name), "Remove it from the job file.");
  }
  for (const double unit : {0.5, 0.0, 1.0}) {
    const Assignment values = study.space.from_units(std::vector<double>(study.space.size(), unit));
    const std::vector<std::string> words = assignments_of(values);
    try {
      trainer::load_job(job, words);
    } catch (const Error& error) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("with {}: {}", values.text(), error.message()), study.path,
                  error.remedy());
    }
  }
}

void check_objectives(const tuning::StudyFile& study, const std::filesystem::path& job) {
  const trainer::ResolvedJob resolved = trainer::load_job(job, assignments_of(largest_values(study.space)));
  if (resolved.job.federated.chosen() || resolved.job.is_vertical())
    throw Error(ErrorKind::kUnsupported,
                "trials are trained by muster train on one machine, and this job's clients or "
                "parties train by rounds of their own",
                study.where("[study] job"), "Search with a job of one owner, or with study.program.");
  const std::vector<std::string> names = trainer::validation_figures(resolved.job);
  if (names.empty() || study.space.find("loss.task") != nullptr) return;
  for (const std::string& metric : study.objectives) {
    if (std::ranges::find(names, metric) != names.end()) continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("study.objective: validations of the job do not tell \"{}\"{}", excerpt(metric, 100),
                            did_you_mean(metric, names)),
                study.where("[study] objective"), fmt::format("They tell {}.", join_words(names)));
  }
}

void check_changes(const tuning::StudyFile& study, const std::filesystem::path& job) {
  const Assignment middle = study.space.from_units(std::vector<double>(study.space.size(), 0.5));
  const std::string text = trainer::load_job(job, assignments_of(middle)).text;
  for (const Parameter& parameter : study.space.parameters()) {
    const std::vector<tuning::Value> samples = samples_of(parameter);
    if (samples.size() < 2) continue;  // it stays what it is
    for (const tuning::Value& value : samples) {
      try {
        trainer::check_change(text, {}, fmt::format("{}={}", parameter.name, tuning::to_toml(value)));
      } catch (const Error& error) {
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("the scheduler changes values while trials run, and {}", error.message()),
                    study.where(parameter.name), error.remedy());
      }
    }
  }
}

JobSubject::JobSubject(std::filesystem::path study, std::filesystem::path job, std::string name,
                       std::vector<tuning::Objective> objectives, std::vector<std::string> settings)
    : TrialSubject(std::move(study)),
      job_(std::move(job)),
      name_(std::move(name)),
      objectives_(std::move(objectives)),
      settings_(std::move(settings)) {
}

std::vector<std::string> JobSubject::assignments(std::uint64_t number, const Assignment& values) const {
  std::vector<std::string> words = settings_;
  for (std::string& word : assignments_of(values))
    words.push_back(std::move(word));
  words.push_back(fmt::format("job.name={}", tuning::to_toml(fmt::format("{}-{}", name_, tuning::trial_name(number)))));
  words.push_back(fmt::format("job.runs={}", tuning::to_toml((study_ / "trials").string())));
  return words;
}

// `ancestors`: the trial's parent, the parent's parent and so on. What a lineage began with is what it is started with;
// what changed on the way stands in its folder.
std::vector<std::string> JobSubject::prepare(const Trial& trial, const std::vector<Trial>& ancestors,
                                             std::uint64_t until) {
  const Trial& root = ancestors.empty() ? trial : ancestors.back();
  const std::vector<std::string> settings = assignments(trial.number, root.values);
  const trainer::ResolvedJob resolved = trainer::load_job(job_, settings);
  std::error_code code;
  if (!std::filesystem::exists(folder(trial.number) / "job.toml", code)) {
    make_folder(trial, resolved);
    if (!ancestors.empty()) copy_state(trial, ancestors.front());
    const std::filesystem::path whole = folder(trial.number);
    std::filesystem::rename(whole.string() + ".part", whole);
    sync_folder(whole.parent_path());
  }
  std::vector<std::string> words{"train", job_.string(), "--quiet", "--run", folder(trial.number).string()};
  for (const std::string& setting : settings)
    words.insert(words.end(), {"--set", setting});
  if (until > 0) words.insert(words.end(), {"--until-epoch", std::to_string(until)});
  return words;
}

void JobSubject::make_folder(const Trial& trial, const trainer::ResolvedJob& resolved) const {
  const std::filesystem::path part = folder(trial.number).string() + ".part";
  std::error_code ignored;
  std::filesystem::remove_all(part, ignored);
  std::filesystem::remove_all(folder(trial.number), ignored);  // what no tuner of ours has made
  muster::make_folder(part);
  write_atomically(part / "job.toml", resolved.text);
  trainer::remember_inputs(part, resolved.job);
}

void JobSubject::copy_state(const Trial& trial, const Trial& parent) const {
  const std::filesystem::path part = folder(trial.number).string() + ".part";
  const std::filesystem::path from = folder(parent.number);
  const std::uint64_t step = checkpoint_at(from, trial.lineage->resource);
  const std::string name = model::CheckpointStore(from / "checkpoints").path_of(step).filename().string();
  muster::make_folder(part / "checkpoints");
  copy_folder(from / "checkpoints" / name, part / "checkpoints" / name);
  std::vector<trainer::JobChange> changes = trainer::RunChanges(from).known();
  std::erase_if(changes, [&](const trainer::JobChange& change) { return change.step > step; });
  std::string text;
  std::uint64_t number = 0;
  for (const trainer::JobChange& change : changes) {
    text += Json{{"number", change.number}, {"assignment", change.assignment}, {"step", change.step}}.dump() + "\n";
    number = change.number;
  }
  for (const auto& [key, value] : trial.values.entries()) {
    const tuning::Value* before = parent.values.find(key);
    if (before != nullptr && *before == value) continue;
    const std::string assignment = fmt::format("{}={}", key, tuning::to_toml(value));
    std::vector<std::string> earlier;
    for (const trainer::JobChange& change : changes)
      earlier.push_back(change.assignment);
    trainer::check_change(read_text(from / "job.toml", 1 << 20), earlier, assignment);
    text += Json{{"number", ++number}, {"assignment", assignment}, {"step", step + 1}}.dump() + "\n";
  }
  if (!text.empty()) write_atomically(part / "changes.jsonl", text);
}

RowMeaning JobSubject::meaning(const Json& row) const {
  RowMeaning meaning;
  const std::string event = row.value("event", "");
  if (event == "validation" && row.contains("epoch") && row["epoch"].is_number_unsigned()) {
    if (auto values = objectives_in(row, objectives_)) {
      meaning.report = tuning::Report{row["epoch"].get<std::uint64_t>(), std::move(*values)};
    } else {
      meaning.lacks = lacking_in(row, objectives_);
      meaning.tells = figures_in(row);
      meaning.hopeless = fmt::format("validations of this trial do not tell {}; they tell {}",
                                     join_words(meaning.lacks), join_words(meaning.tells));
    }
  } else if (event == "step") {
    meaning.lost_step = row.contains("loss") && row["loss"].is_null();
    meaning.good_step = !meaning.lost_step;
  } else if (event == "finished") {
    meaning.finished = true;
  } else if (event == "paused" && row.contains("epoch") && row["epoch"].is_number_unsigned()) {
    meaning.paused_at = row["epoch"].get<std::uint64_t>();
  }
  return meaning;
}

std::string JobSubject::failure(std::uint64_t number) const {
  try {
    return trainer::read_failure(folder(number));
  } catch (const Error&) {
    return {};
  }
}

void JobSubject::drop_state(std::uint64_t number) const {
  std::error_code ignored;  // a disk that is slow to let go costs room, and nothing else
  std::filesystem::remove_all(folder(number) / "checkpoints", ignored);
}

}  // namespace muster::cli
