// A run's folder has its name by mkdir, which decides between two that start in the same second. Names sort by time, so
// the newest is the last.
#include "muster/trainer/run_folder.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::trainer {
namespace {

constexpr std::uint64_t kLargestJob = 1 << 20;
// "-20261115-193427", perhaps with "-2" behind it for a second run in the same second.
constexpr std::size_t kStampLength = 16;

bool is_run_of(const std::string& folder, const std::string& name) {
  if (!folder.starts_with(name + "-")) return false;
  const std::string rest = folder.substr(name.size());
  if (rest.size() < kStampLength || (rest.size() > kStampLength && rest[kStampLength] != '-')) return false;
  return rest.find_first_not_of("-0123456789") == std::string::npos && rest[9] == '-';
}

void check_path(const std::filesystem::path& path) {
  const std::string text = path.string();
  const auto refuse = [&](const std::string& reason) {
    throw Error(ErrorKind::kInvalidInput, "cannot be the folder of a run: " + reason, excerpt(text, 200),
                "Choose another job.runs, for example one relative to the working directory.");
  };
  if (valid_utf8_prefix(text) != text.size()) refuse("its path is not UTF-8");
  const std::size_t length = Json(text).dump().size() - 2;  // without the quotation marks
  if (length > RunFolder::kLongestPath)
    refuse(fmt::format("its path has {} bytes; {} are possible", length, RunFolder::kLongestPath));
}

}  // namespace

RunFolder RunFolder::create(const std::filesystem::path& runs, const std::string& name, const std::string& job,
                            const Clock& clock) {
  RunFolder folder(make(runs, name, clock));
  write_atomically(folder.job_file(), job);
  return folder;
}

std::filesystem::path RunFolder::make(const std::filesystem::path& runs, const std::string& name, const Clock& clock) {
  const std::string stamp = time_stamp(clock.wall());
  check_path(runs / fmt::format("{}-{}", name, stamp));
  make_folder(runs);
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const std::string suffix = attempt == 1 ? "" : fmt::format("-{:03}", attempt);
    std::filesystem::path folder = runs / fmt::format("{}-{}{}", name, stamp, suffix);
    std::error_code code;
    if (std::filesystem::create_directory(folder, code)) return folder;
    if (code && code != std::errc::file_exists) {
      errno = code.value();
      throw_system_error("cannot be created", folder);
    }
  }
  throw Error(ErrorKind::kIo, "a thousand runs began in this second", runs.string());
}

RunFolder RunFolder::open(const std::filesystem::path& path) {
  check_path(path);
  RunFolder folder(path);
  std::error_code code;
  if (!std::filesystem::is_regular_file(folder.job_file(), code)) {
    throw Error(ErrorKind::kNotFound, "is not the folder of a run (it has no job.toml)", path.string(),
                "Name a folder such as runs/NAME-TIME.");
  }
  return folder;
}

RunFolder RunFolder::of_other_host(const std::filesystem::path& path, const std::filesystem::path& runs,
                                   const std::string& job) {
  for (const std::filesystem::path& place : {path, runs / path.filename()}) {
    check_path(place);
    std::error_code code;
    if (std::filesystem::is_regular_file(RunFolder(place).job_file(), code)) return RunFolder(place);
  }
  // Several workers of this host may come here at the same time; all write the same.
  RunFolder folder(runs / path.filename());
  make_folder(folder.path());
  write_atomically(folder.job_file(), job);
  return folder;
}

bool RunFolder::is_unused(const std::filesystem::path& path) {
  const RunFolder folder(path);
  std::error_code code;
  return std::filesystem::is_regular_file(folder.job_file(), code) &&
         !std::filesystem::exists(folder.checkpoints(), code) && !std::filesystem::exists(folder.metrics_file(), code);
}

std::optional<RunFolder> RunFolder::newest(const std::filesystem::path& runs, const std::string& name) {
  std::string best;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(runs, code)) {
    const std::string folder = entry.path().filename().string();
    // The stamp makes names sort by time.
    if (is_run_of(folder, name) && folder > best && std::filesystem::is_regular_file(entry.path() / "job.toml", code)) {
      best = folder;
    }
  }
  if (best.empty()) return std::nullopt;
  check_path(runs / best);
  return RunFolder(runs / best);
}

std::string RunFolder::job() const {
  return read_text(job_file(), kLargestJob);
}

}  // namespace muster::trainer
