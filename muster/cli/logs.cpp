// muster logs: what a worker of a job has written down, also while it goes on.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/cli/command.h"
#include "muster/cli/runs.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLookInterval{200};
constexpr int kMostRanks = 1024;

struct LogsFlags {
  std::string job;
  std::string runs = "runs";
  std::optional<int> rank;
  bool supervisor = false;
  bool follow = false;
};

std::filesystem::path log_of(const trainer::RunFolder& run, int rank) {
  std::error_code code;
  if (std::filesystem::exists(run.log_file(rank), code)) return run.log_file(rank);
  std::vector<std::string> ranks;
  for (int other = 0; other < kMostRanks; ++other)
    if (std::filesystem::exists(run.log_file(other), code)) ranks.push_back(fmt::format("{}", other));
  throw Error(ErrorKind::kNotFound, fmt::format("worker {} has no log", rank), run.path().string(),
              ranks.empty() ? "No worker has one yet." : fmt::format("Ranks with a log: {}.", join_words(ranks)));
}

// Prints from `offset` to the end as it is now; gives the new offset.
std::uint64_t print_from(const std::filesystem::path& path, std::uint64_t offset) {
  const OpenFile file = open_for_reading(path);
  std::array<char, 64 * 1024> buffer;
  while (offset < file.size) {
    const std::size_t size = std::min<std::uint64_t>(buffer.size(), file.size - offset);
    read_exactly(file, offset, std::as_writable_bytes(std::span(buffer).first(size)), path);
    std::fwrite(buffer.data(), 1, size, stdout);
    offset += size;
  }
  std::fflush(stdout);
  return offset;
}

// Who came, who was lost and why, as the process that watches the workers has seen it.
std::filesystem::path supervisors_log(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "log.supervisor.txt";
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw Error(ErrorKind::kNotFound, "the supervisor has no log yet", run.string(), "It comes with the first step.");
  return path;
}

std::filesystem::path chosen_log(const std::filesystem::path& run, const LogsFlags& flags) {
  std::error_code code;
  const bool own_program = !std::filesystem::exists(run / "job.toml", code);
  if (own_program && flags.rank)
    throw Error(ErrorKind::kNotFound, "the workers of a program under muster run have no logs of ours", run.string(),
                "They print where muster run was started. Without a rank, muster logs shows what its supervisor saw.");
  if (own_program || flags.supervisor) return supervisors_log(run);
  return log_of(trainer::RunFolder::open(run), flags.rank.value_or(0));
}

void run_logs(const LogsFlags& flags) {
  const std::filesystem::path run = find_newest_run(flags.job, flags.runs);
  const std::filesystem::path path = chosen_log(run, flags);
  std::uint64_t offset = print_from(path, 0);
  // Ends with the job: what it wrote before its last process went is read once more.
  for (bool alive = flags.follow; alive;) {
    alive = is_alive(run);
    if (alive) system_clock().sleep_for(kLookInterval);
    offset = print_from(path, offset);
  }
}

}  // namespace

void add_logs(CLI::App& app) {
  CLI::App* command = app.add_subcommand("logs", "The log of a job's worker.");
  auto flags = std::make_shared<LogsFlags>();
  command->add_option("job", flags->job, "A run's folder, its name, or the beginning of it")->required();
  command->add_option("rank", flags->rank, "The worker; the first one if not given")
      ->check(CLI::Range(0, kMostRanks - 1));
  command->add_flag("--supervisor", flags->supervisor, "The log of the process that watches the workers");
  command->add_flag("--follow,-f", flags->follow, "Go on until the job is over");
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->footer(
      "The workers of a program under muster run print where it was started; of such a job the supervisor's log is "
      "shown.\n"
      "\nExamples:\n"
      "  muster logs fashion\n"
      "  muster logs fashion 1 --follow\n"
      "  muster logs fashion --supervisor              who came, who was lost and why");
  command->callback([flags] { run_logs(*flags); });
}

}  // namespace muster::cli
