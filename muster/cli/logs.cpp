// muster logs: what a worker of a job has written down, also while it goes on. Following is reading from where it
// stopped before, until nothing of the job lives any more, and then once more.
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
#include "muster/control/access_token.h"
#include "muster/control/commands_folder.h"
#include "muster/control/job_record.h"
#include "muster/control/job_store.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLookInterval{200};
constexpr int kMostRank = 1'000'000;

struct LogsFlags {
  std::string job;
  std::string runs = "runs";
  std::optional<int> rank;
  bool supervisor = false;
  bool follow = false;
};

// Workers that have a log here. On several hosts each has those of its own workers, and others' numbers are theirs.
std::vector<int> logged_ranks(const std::filesystem::path& run) {
  std::vector<int> ranks;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(run, code)) {
    const std::string name = entry.path().filename().string();
    int rank = name == "log.txt" ? 0 : -1;
    if (std::sscanf(name.c_str(), "log.%d.txt", &rank) < 0 || rank < 0) continue;
    if (trainer::RunFolder::log_name(rank) == name) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// No rank: that of the first worker of this host.
std::filesystem::path log_of(const std::filesystem::path& run, std::optional<int> rank) {
  const std::vector<int> ranks = logged_ranks(run);
  if (!rank && !ranks.empty()) return run / trainer::RunFolder::log_name(ranks.front());
  if (std::binary_search(ranks.begin(), ranks.end(), rank.value_or(0)))
    return run / trainer::RunFolder::log_name(rank.value_or(0));
  std::vector<std::string> names;
  for (const int one : ranks)
    names.push_back(fmt::format("{}", one));
  throw Error(ErrorKind::kNotFound, fmt::format("worker {} has no log", rank.value_or(0)), run.string(),
              ranks.empty() ? "No worker has one yet." : fmt::format("Ranks with a log: {}.", join_words(names)));
}

// That this host's part is not all, on standard error.
void tell_of_other_hosts(const std::filesystem::path& run) {
  if (control::commands_folder(run) == run) return;
  const auto coordinator = control::JobRecord(control::open_record_store(control::commands_folder(run))).identity();
  if (!coordinator || coordinator->elsewhere.empty()) return;
  fmt::print(stderr, "muster: this is what workers of this host have written; the run of the host that leads is {}\n",
             coordinator->elsewhere);
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
  const std::filesystem::path path = control::commands_folder(run) / "log.supervisor.txt";
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw Error(ErrorKind::kNotFound, "the supervisor has no log yet", run.string(), "It comes with the first step.");
  return path;
}

std::filesystem::path chosen_log(const std::filesystem::path& run, const LogsFlags& flags) {
  std::error_code code;
  const bool own_program = !std::filesystem::exists(run / "job.toml", code);
  const bool logged = !own_program || !logged_ranks(run).empty();
  if (!logged && flags.rank)
    throw Error(ErrorKind::kNotFound, "the workers of this program print where muster run was started", run.string(),
                "muster run --logs keeps what they print. Without a rank, muster logs shows what the supervisor saw.");
  if (!logged || flags.supervisor) return supervisors_log(run);
  if (!own_program) trainer::RunFolder::open(run);  // is it one?
  return log_of(run, flags.rank);
}

void run_logs(const LogsFlags& flags) {
  const std::filesystem::path run = find_newest_run(flags.job, flags.runs);
  tell_of_other_hosts(run);
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
  command->add_option("rank", flags->rank, "The worker; the first one if not given")->check(CLI::Range(0, kMostRank));
  command->add_flag("--supervisor", flags->supervisor, "The log of the process that watches the workers");
  command->add_flag("--follow,-f", flags->follow, "Go on until the job is over");
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->footer(
      "Of a job of several hosts each host has the logs of its own workers; without a rank, that of the first one "
      "here.\n"
      "The workers of a program under muster run print where it was started, unless it was started with --logs; else "
      "the\n"
      "supervisor's log is shown.\n"
      "\nExamples:\n"
      "  muster logs fashion\n"
      "  muster logs fashion 1 --follow\n"
      "  muster logs fashion --supervisor              who came, who was lost and why");
  command->callback([flags] { run_logs(*flags); });
}

}  // namespace muster::cli
