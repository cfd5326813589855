// Reads what anybody can read (status, metrics, names of checkpoints) and changes nothing: even opening a checkpoint
// store would clear up what is to be found.
#include "muster/cli/chaos/watch.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/cli/runs.h"
#include "muster/model/checkpoint.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kAnswerTime{500};
constexpr double kFootprintInterval = 2;  // seconds
constexpr std::chrono::seconds kLeavingTime{5};
constexpr std::chrono::milliseconds kLeavingPause{100};

std::filesystem::path checkpoints_of(const std::filesystem::path& run) {
  return trainer::RunFolder::open(run).checkpoints();
}

StoredWeights weights_of(const model::LoadedCheckpoint& checkpoint) {
  StoredWeights weights{checkpoint.manifest.step, {}};
  for (const model::ManifestFile& file : checkpoint.manifest.files)
    weights.hash += (weights.hash.empty() ? "" : "+") + file.sha256;
  return weights;
}

// By their names alone: opening a store would clear up what dead writers have left, which is to be found.
std::vector<std::uint64_t> checkpoint_steps(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "step-";
  std::vector<std::uint64_t> steps;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t step = 0;
    if (!name.starts_with(kPrefix)) continue;
    const auto parsed = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) steps.push_back(step);
  }
  return steps;
}

std::uintmax_t size_of(const std::filesystem::path& file) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(file, code);
  return code ? 0 : size;
}

}  // namespace

StoredWeights stored_weights(const std::filesystem::path& run, std::uint64_t step) {
  return weights_of(model::CheckpointStore(checkpoints_of(run)).load(step));
}

bool has_checkpoint(const std::filesystem::path& run, std::uint64_t step) {
  const std::vector<std::uint64_t> steps = checkpoint_steps(checkpoints_of(run));
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

JobWatch::JobWatch(std::filesystem::path run)
    : run_(std::move(run)),
      client_(run_),
      start_(system_clock().now()),
      metrics_before_(size_of(run_ / "metrics.jsonl")),
      footprints_(run_) {
}

double JobWatch::now() const {
  return std::chrono::duration<double>(system_clock().now() - start_).count();
}

const control::JobStatus& JobWatch::look() {
  ChaosSample sample;
  status_ = {};
  try {
    status_ = client_.status(Deadline::after(kAnswerTime));
    const std::optional<control::Lease> lease = client_.record().lease();
    sample.token = lease ? lease->epoch : 0;
    over_ = !status_.live && !is_alive(client_.record());
    if (const auto launch = client_.record().launch()) footprints_.add_store(launch->store);
  } catch (const Error&) {
    // The record or its token may be in the middle of a change of coordinators.
    sample.token = samples_.empty() ? 0 : samples_.back().token;
  }
  sample.at = now();
  sample.live = status_.live;
  sample.step = status_.step;
  sample.generation = status_.generation;
  if (sample.live && sample.step > last_step_) {
    last_step_ = sample.step;
    last_commit_ = sample.at;
  }
  samples_.push_back(sample);
  for (const control::Worker& member : status_.members)
    footprints_.add(member.process);
  if (status_.live) footprints_.add(process_of(status_.coordinator_pid));
  if (sample.at - looked_at_footprints_ > kFootprintInterval) {
    footprints_.look();
    looked_at_footprints_ = sample.at;
  }
  for (const std::uint64_t step : checkpoint_steps(run_ / "checkpoints"))
    acknowledged_ = std::max(acknowledged_.value_or(0), step);
  return status_;
}

void read_metrics(const std::filesystem::path& run, Observations& seen, std::uintmax_t from) {
  std::ifstream file(run / "metrics.jsonl");
  file.seekg(static_cast<std::streamoff>(from));
  for (std::string line; std::getline(file, line);) {
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("step") || !row.at("step").is_number_unsigned()) continue;
    seen.metric_steps.push_back(row.at("step").get<std::uint64_t>());
    if (row.value("event", "") == "validation") seen.validated_steps.insert(seen.metric_steps.back());
  }
}

void read_checkpoints(const std::filesystem::path& run, Observations& seen) {
  std::vector<model::RejectedCheckpoint> rejected;
  if (const auto newest = model::CheckpointStore(checkpoints_of(run)).load_newest(rejected))
    seen.newest = weights_of(*newest);
  for (const model::RejectedCheckpoint& one : rejected)
    seen.rejected.push_back(fmt::format("{}: {}", one.path.filename().string(), one.reason));
}

data::LedgerReport read_ledger(const std::filesystem::path& run, std::optional<std::uint64_t> step) {
  try {
    return data::check_ledger(trainer::RunFolder::open(run).ledger(), step);
  } catch (const Error& error) {
    data::LedgerReport report;
    report.violation = error.what();
    return report;
  }
}

Observations JobWatch::conclude(bool ledger) {
  Observations seen;
  seen.samples = samples_;
  seen.acknowledged = acknowledged_;
  seen.over = over_;
  read_metrics(run_, seen, metrics_before_);
  if (!over_) return seen;
  const Deadline deadline = Deadline::after(kLeavingTime);
  seen.leftovers = footprints_.left();
  while (!seen.leftovers->empty() && !deadline.passed()) {
    system_clock().sleep_for(kLeavingPause);
    seen.leftovers = footprints_.left();
  }
  const control::Standing standing = client_.record().standing();
  seen.ended_well = standing.phase == control::JobPhase::kFinished || standing.phase == control::JobPhase::kStopped;
  seen.end = fmt::format("{} at step {}{}", to_string(standing.phase), standing.step,
                         standing.reason.empty() ? "" : ": " + standing.reason);
  read_checkpoints(run_, seen);
  if (ledger) seen.ledger = read_ledger(run_, seen.newest ? std::optional(seen.newest->step) : std::nullopt);
  return seen;
}

}  // namespace muster::cli
