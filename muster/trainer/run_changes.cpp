// Two files, each replaced whole by its one writer. changes.jsonl alone decides; asked.jsonl is a wish until all
// workers have agreed on its step.
#include "muster/trainer/run_changes.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/json.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kMostBytes = 64 << 20;

std::filesystem::path asked_file(const std::filesystem::path& run) {
  return run / "asked.jsonl";
}
std::filesystem::path known_file(const std::filesystem::path& run) {
  return run / "changes.jsonl";
}

std::string text_of(std::span<const JobChange> changes) {
  std::string text;
  for (const JobChange& change : changes) {
    Json row{{"number", change.number}, {"assignment", change.assignment}};
    if (change.step > 0) row["step"] = change.step;
    text += row.dump() + "\n";
  }
  return text;
}

std::vector<JobChange> parse_changes(const std::string& text, bool with_step, const std::string& where) {
  std::vector<JobChange> changes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const Json row = parse_json(line, where);
    JobChange change;
    change.number = json_get<std::uint64_t>(row, "number", where);
    change.assignment = json_get<std::string>(row, "assignment", where);
    if (with_step) change.step = json_get<std::uint64_t>(row, "step", where);
    if (change.number == 0 || (!changes.empty() && change.number <= changes.back().number))
      throw Error(ErrorKind::kDamaged, fmt::format("change {} is out of order", change.number), where);
    if (with_step && (change.step == 0 || (!changes.empty() && change.step < changes.back().step)))
      throw Error(ErrorKind::kDamaged,
                  fmt::format("change {} cannot count from step {} on", change.number, change.step), where);
    changes.push_back(std::move(change));
  }
  return changes;
}

std::vector<JobChange> read_file(const std::filesystem::path& path, bool with_step) {
  if (!std::filesystem::exists(path)) return {};
  return parse_changes(read_text(path, kMostBytes), with_step, path.string());
}

}  // namespace

void write_asked_changes(const std::filesystem::path& run, std::span<const JobChange> changes) {
  write_atomically(asked_file(run), text_of(changes));
}

RunChanges::RunChanges(const std::filesystem::path& run) : run_(run), known_(read_file(known_file(run), true)) {
  read_asked();
}

void RunChanges::read_asked() {
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(asked_file(run_), code);
  if (code || asked_bytes_ == bytes) return;
  asked_ = read_file(asked_file(run_), false);
  asked_bytes_ = bytes;
}

std::uint64_t RunChanges::proposal(std::uint64_t step) {
  if (!known_.empty() && known_.back().step > step) return 0;
  read_asked();
  return asked_.empty() || asked_.back().number <= last_known() ? 0 : asked_.back().number;
}

bool RunChanges::agree(std::uint64_t agreed, std::uint64_t step) {
  if (knows(agreed)) return false;
  agree_on_known(agreed, step);
  if (last_known() != agreed)
    throw Error(ErrorKind::kDamaged, fmt::format("change {} is not there", agreed), asked_file(run_).string());
  return true;
}

bool RunChanges::agree_on_known(std::uint64_t agreed, std::uint64_t step) {
  if (knows(agreed)) return false;
  const std::uint64_t before = last_known();
  MUSTER_CHECK(known_.empty() || known_.back().step <= step, "a change was proposed before its turn");
  read_asked();
  for (const JobChange& change : asked_) {
    if (change.number > last_known() && change.number <= agreed)
      known_.push_back({change.number, change.assignment, step});
  }
  return last_known() > before;
}

std::string RunChanges::to_text() const {
  return text_of(known_);
}

bool RunChanges::take(const std::string& text) {
  if (text == to_text()) return false;
  known_ = parse_changes(text, true, "what the leader has told of changes");
  return true;
}

void RunChanges::write() const {
  MUSTER_FAILPOINT("changes.write.before");
  write_atomically(known_file(run_), to_text());
  MUSTER_FAILPOINT("changes.write.after");
}

std::uint64_t RunChanges::number_at(std::uint64_t step) const {
  std::uint64_t number = 0;
  for (const JobChange& change : known_) {
    if (change.step <= step) number = change.number;
  }
  return number;
}

std::vector<std::string> RunChanges::assignments_at(std::uint64_t step) const {
  std::vector<std::string> assignments;
  for (const JobChange& change : known_) {
    if (change.step > step) break;
    const std::string key = change.assignment.substr(0, change.assignment.find('=') + 1);
    std::erase_if(assignments, [&](const std::string& earlier) { return earlier.starts_with(key); });
    assignments.push_back(change.assignment);
  }
  return assignments;
}

}  // namespace muster::trainer
