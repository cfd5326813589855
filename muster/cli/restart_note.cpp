// Slurm counts how often it has started a job; who starts nodes by hand or by another engine says it by using the same
// name again.
#include "muster/cli/restart_note.h"

#include "muster/base/files.h"

namespace muster::cli {
namespace {

constexpr const char* kNotePrefix = ".muster-run-of-";
constexpr std::uint64_t kLongestNote = 4096;

}  // namespace

RestartNote::RestartNote(const std::filesystem::path& runs, const launch::Surroundings& surroundings)
    : again_(surroundings.launcher == "hand" || surroundings.restarts > 0) {
  if (!surroundings.job.empty() && surroundings.node == 0) file_ = runs / (kNotePrefix + surroundings.job);
}

std::optional<std::filesystem::path> RestartNote::run() const {
  std::error_code code;
  if (file_.empty() || !again_ || !std::filesystem::exists(file_, code)) return std::nullopt;
  std::filesystem::path run = read_text(file_, kLongestNote);
  if (!std::filesystem::exists(run / "job.toml", code)) return std::nullopt;
  return run;
}

void RestartNote::remember(const std::filesystem::path& run) const {
  if (!file_.empty()) write_atomically(file_, std::filesystem::absolute(run).string());
}

void RestartNote::forget() const {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

}  // namespace muster::cli
