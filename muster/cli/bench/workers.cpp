// muster bench step --workers: teams of processes in turns, a team for each strategy and number of workers, and one of
// PyTorch DDP to compare with. Processes that share nothing take turns with them: what they do is the ceiling.
//
// The first process of a team takes its turn when a line arrives on its standard input, and answers with one line of
// JSON; the others follow it, and sleep meanwhile. A team ends when its input ends. No torch here.
#include <filesystem>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/cli/bench/step_teams.h"
#include "muster/cli/bench/team.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/strategies/registry.h"

namespace muster::cli {
namespace {

std::int64_t lanes_of(const StepBench& options, std::int64_t workers) {
  return options.slow > 1 ? kLanesOfUnevenWorkers * workers : workers;
}

// Of one turn: what its workers tell the first one.
struct Speeds {
  double of_speeds = 0;   // lanes/s of the team, as a part of the sum of what each does while it computes
  double slow_share = 0;  // of the lanes, the last worker's
};

Speeds gather_speeds(comm::Group& group, const StepTimes& times) {
  const auto sum = [](const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  const std::vector<double> mine{static_cast<double>(times.lanes), sum(times.compute)};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(mine), std::span(all));
  double lanes = 0;
  double speeds = 0;  // lanes a millisecond
  for (std::size_t worker = 0; worker < all.size(); worker += mine.size()) {
    lanes += all[worker];
    if (all[worker + 1] > 0) speeds += all[worker] / all[worker + 1];
  }
  return {lanes / sum(times.total) / speeds, all[all.size() - mine.size()] / lanes};
}

// The times of all processes that train apart: the slower one counts as much.
void gather_totals(comm::Group& group, StepTimes& times) {
  std::vector<double> all(times.total.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::span<const double>(times.total), std::span(all));
  times.total = std::move(all);
}

StepContender make_contender(const StepBench& options, const comm::Group& group) {
  const std::int64_t workers = group.size();
  if (options.strategies.front() == kApart)
    return {options, options.batch, 1, strategies::default_strategy().name(), {}};
  return {options, options.batch * workers, lanes_of(options, workers), options.strategies.front(), {group}};
}

// One process of a team.
void run_team_member(const StepBench& options) {
  const auto workers = options.workers.front();
  comm::GroupOptions meeting;
  meeting.rank = static_cast<int>(options.rank);
  meeting.size = static_cast<int>(workers);
  meeting.store = comm::make_file_store(options.rank_folder);
  if (workers > 1) meeting.backend = options.backend;
  meeting.timeout = kRankRunTimeout;
  comm::Group group = comm::make_group(meeting);
  StepContender contender = make_contender(options, group);
  std::vector<std::int32_t> go(1);
  for (;;) {
    if (group.rank() == 0) {
      std::string line;
      go[0] = std::getline(std::cin, line) ? 1 : 0;
    }
    group.broadcast(std::span(go), 0);
    if (go[0] == 0) return;
    StepTimes times;
    contender.turn(times);
    const Speeds speeds = gather_speeds(group, times);
    if (options.strategies.front() == kApart) gather_totals(group, times);
    std::vector<double> state{static_cast<double>(contender.state_bytes())};
    group.all_reduce(std::span(state));
    if (group.rank() != 0) continue;
    Json answer = to_json(times);
    answer["state_bytes"] = state[0];
    answer["of_speeds"] = speeds.of_speeds;
    answer["slow_share"] = speeds.slow_share;
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

std::unique_ptr<Team> start_ddp(const StepBench& options, std::int64_t workers, const std::string& folder) {
  auto team = std::make_unique<Team>("ddp", workers);
  std::filesystem::create_directories(folder);
  for (std::int64_t rank = 0; rank < workers; ++rank)
    team->start(ddp_command(options, {rank, workers, "file://" + folder + "/ddp", "lo"}), rank);
  return team;
}

// Rows with what can only be told by comparing: against one worker of the same strategy, and against DDP.
void print_teams(const StepBench& options, const std::vector<std::unique_ptr<Team>>& teams) {
  const auto rate = [&](const Team& team) {
    return static_cast<double>(options.batch * team.workers()) / median(team.times().total);
  };
  const auto find = [&](const std::string& strategy, std::int64_t workers) -> const Team* {
    for (const auto& team : teams) {
      if (team->strategy() == strategy && team->workers() == workers) return team.get();
    }
    return nullptr;
  };
  for (const auto& team : teams) {
    Json row = step_row(options, team->strategy(), team->workers(), lanes_of(options, team->workers()), team->times());
    if (const Team* alone = find(team->strategy(), 1))
      row["efficiency"] = rate(*team) / (rate(*alone) * static_cast<double>(team->workers()));
    if (const Team* apart = find(kApart, team->workers())) row["of_ceiling"] = rate(*team) / rate(*apart);
    if (const Team* ddp = find("ddp", team->workers())) row["ratio_to_ddp"] = rate(*team) / rate(*ddp);
    if (const Team* ddp = find("ddp", team->workers()))
      row["host_mb_to_ddp"] = team->state_bytes() / ddp->state_bytes();
    if (options.slow > 1 && team->strategy() != "ddp") {
      row["slow"] = options.slow;
      row["of_speeds"] = median(team->of_speeds());
      row["slow_share"] = median(team->slow_share());
    }
    row["host_mb"] = team->state_bytes() / (1 << 20);
    row["process_mb"] = static_cast<double>(team->memory_kb()) / 1024;
    print_row(row, options.json);
  }
}

}  // namespace

void bench_workers(const StepBench& options) {
  if (!options.rank_folder.empty()) return run_team_member(options);
  check_teams(options);
  if (options.slow > 1 && options.batch < 2 * kLanesOfUnevenWorkers)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} samples a worker cannot be cut into {} lanes", options.batch, kLanesOfUnevenWorkers),
                "--slow", "Give --batch 8 or more.");
  const TemporaryFolder folder("muster-bench-");
  std::vector<std::unique_ptr<Team>> teams;
  for (const std::int64_t workers : options.workers) {
    for (const std::string& strategy : options.strategies)
      teams.push_back(
          start_team(options, strategy, workers, fmt::format("{}/{}-{}", folder.path().string(), strategy, workers)));
    if (workers > 1 && options.slow <= 1)
      teams.push_back(
          start_team(options, kApart, workers, fmt::format("{}/{}-{}", folder.path().string(), kApart, workers)));
    if (!options.against.empty())
      teams.push_back(start_ddp(options, workers, fmt::format("{}/{}", folder.path().string(), workers)));
  }
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (const auto& team : teams)
      team->take_turn();
  }
  print_teams(options, teams);
}

}  // namespace muster::cli
