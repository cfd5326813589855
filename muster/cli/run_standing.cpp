// Only the end of metrics.jsonl is read, however long it is. What cannot be read is not known: a status is no place to
// fail.
#include "muster/cli/run_standing.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/model/checkpoint.h"

namespace muster::cli {
namespace {

constexpr std::uint64_t kTail = 64 * 1024;

// Whole rows at the end of the file; the first one may be cut.
std::string tail_of(const std::filesystem::path& path) {
  const OpenFile file = open_for_reading(path);
  const std::uint64_t size = std::min(file.size, kTail);
  std::string text(size, '\0');
  read_exactly(file, file.size - size, std::as_writable_bytes(std::span(text)), path);
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  return text;
}

void read_last_rows(const std::filesystem::path& path, RunStanding& standing) {
  const std::string text = tail_of(path);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const Json row = Json::parse(rest.substr(0, end), nullptr, false);
    rest.remove_prefix(end + 1);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_unsigned()) continue;
    // A resumed run goes back to its checkpoint: the last row counts, not the highest.
    standing.step = row["step"].get<std::uint64_t>();
    if (row.contains("event") && row["event"].is_string()) standing.last_event = row["event"].get<std::string>();
    if (standing.last_event == "step") standing.figures = row;
  }
}

bool somebody_lives(const control::JobStatus& status) {
  return status.coordinator_pid != 0 ||
         std::any_of(status.members.begin(), status.members.end(),
                     [](const control::Worker& worker) { return state_of(worker.process) != ProcessState::kGone; });
}

bool has_ended(const std::string& state) {
  using control::JobPhase;
  constexpr std::array kEnds{JobPhase::kFinished, JobPhase::kStopped, JobPhase::kFailed};
  return std::any_of(kEnds.begin(), kEnds.end(), [&](JobPhase phase) { return state == to_string(phase); });
}

}  // namespace

RunStanding read_standing(const std::filesystem::path& run) {
  RunStanding standing;
  try {
    read_last_rows(run / "metrics.jsonl", standing);
  } catch (const Error&) {
  }
  std::error_code code;
  standing.own_program = !std::filesystem::exists(run / "job.toml", code);
  if (!std::filesystem::is_directory(run / "checkpoints", code)) return standing;
  try {
    const std::vector<std::uint64_t> steps = model::CheckpointStore(run / "checkpoints").list();
    if (!steps.empty()) standing.checkpoint = steps.back();
  } catch (const Error&) {
  }
  standing.step = std::max(standing.step, standing.checkpoint.value_or(0));
  return standing;
}

void correct_by_files(control::JobStatus& status, const RunStanding& standing) {
  if (has_ended(status.state)) return;
  status.step = std::max(status.step, standing.step);
  if (somebody_lives(status)) return;
  if (standing.last_event == "finished") {
    status.state = to_string(control::JobPhase::kFinished);
    status.reason = "its workers came to the end without a coordinator";
    status.alarms.clear();
    return;
  }
  status.state = "abandoned";
  status.reason = "nobody runs it any more";
  status.alarms.push_back(
      standing.checkpoint
          ? fmt::format("its newest checkpoint is of step {}: go on with muster train JOB.toml --resume --run {}",
                        *standing.checkpoint, status.run)
          : fmt::format("it has no checkpoint{}",
                        standing.own_program || standing.last_event.empty() ? " of ours" : ""));
}

}  // namespace muster::cli
