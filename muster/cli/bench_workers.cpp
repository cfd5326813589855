// muster bench step --workers: teams of processes in turns, a team for each strategy and number of workers, and one of
// PyTorch DDP to compare with.
//
// The first process of a team takes its turn when a line arrives on its standard input, and answers with one line of
// JSON; the others follow it, and sleep meanwhile. A team ends when its input ends. No torch here.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/cli/bench.h"
#include "muster/cli/ddp_peer.h"
#include "muster/cli/rank_processes.h"
#include "muster/cli/workers.h"
#include "muster/comm/connect.h"
#include "muster/comm/store.h"
#include "muster/launch/child_process.h"
#include "muster/strategies/registry.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kTurnTimeout{600};
// all_reduce with its option, as a strategy of its own: both take turns in one run.
constexpr const char* kOverlapped = "all_reduce+overlap";
constexpr std::chrono::seconds kEndTimeout{10};

// Memory that a process has for itself, its part of what it shares included; 0 where the system does not tell.
std::int64_t proportional_kb(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string word; file >> word;) {
    std::int64_t kilobytes = 0;
    if (word == "Pss:" && file >> kilobytes) return kilobytes;
  }
  return 0;
}

Json to_json(const StepTimes& times) {
  return {{"total", times.total},
          {"compute", times.compute},
          {"update", times.update},
          {"wait", times.wait},
          {"load", times.load}};
}

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
  StepContender contender(options, options.batch * workers, lanes_of(options, workers), options.strategies.front(),
                          group);
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

// The parent's end of a team.
class Team {
 public:
  Team(std::string strategy, std::int64_t workers) : strategy_(std::move(strategy)), workers_(workers) {
    const auto [commands_read, commands_write] = make_pipe();
    const auto [answers_read, answers_write] = make_pipe();
    commands_ = FileDescriptor(commands_write);
    answers_ = FileDescriptor(answers_read);
    child_input_ = FileDescriptor(commands_read);
    child_output_ = FileDescriptor(answers_write);
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  // Lets the processes end by themselves; what has not ended then is killed.
  ~Team() {
    commands_ = FileDescriptor();
    try {
      launch::wait_for_all(processes_, Deadline::after(kEndTimeout));
    } catch (const Error&) {
    }
  }

  void start(launch::Command command, std::int64_t rank) {
    if (rank == 0) {
      command.input = child_input_.get();
      command.output = child_output_.get();
    }
    processes_.emplace_back(command);
    if (rank == 0) {
      child_input_ = FileDescriptor();
      child_output_ = FileDescriptor();
    }
  }

  void take_turn() {
    if (::write(commands_.get(), "turn\n", 5) != 5) throw_lost();
    const Json answer = Json::parse(read_line());
    const auto append = [&](const char* key, std::vector<double>& values) {
      for (const Json& value : answer.value(key, Json::array()))
        values.push_back(value.get<double>());
    };
    append("total", times_.total);
    append("compute", times_.compute);
    append("update", times_.update);
    append("wait", times_.wait);
    append("load", times_.load);
    state_bytes_ = answer.value("state_bytes", 0.0);
    of_speeds_.push_back(answer.value("of_speeds", 0.0));
    slow_share_.push_back(answer.value("slow_share", 0.0));
  }

  const std::string& strategy() const { return strategy_; }
  std::int64_t workers() const { return workers_; }
  const StepTimes& times() const { return times_; }
  double state_bytes() const { return state_bytes_; }
  const std::vector<double>& of_speeds() const { return of_speeds_; }
  const std::vector<double>& slow_share() const { return slow_share_; }
  std::int64_t memory_kb() const {
    std::int64_t sum = 0;
    for (const launch::ChildProcess& process : processes_)
      sum += proportional_kb(process.pid());
    return sum;
  }

 private:
  static std::pair<int, int> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_system_error("make a pipe for", "the benchmark");
    return {ends[0], ends[1]};
  }
  [[noreturn]] void throw_lost() const {
    throw Error(ErrorKind::kPeerLost, fmt::format("the {} processes of {} ended", workers_, strategy_), {},
                "Their own message is above.");
  }
  std::string read_line() {
    const Deadline deadline = Deadline::after(kTurnTimeout);
    while (buffer_.find('\n') == std::string::npos) {
      pollfd waiting{answers_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 100) > 0) {
        std::array<char, 4096> bytes;
        const ssize_t count = ::read(answers_.get(), bytes.data(), bytes.size());
        if (count <= 0) throw_lost();
        buffer_.append(bytes.data(), static_cast<std::size_t>(count));
      }
      if (deadline.passed()) throw Error(ErrorKind::kTimeout, fmt::format("{} did not answer", strategy_));
    }
    const std::size_t end = buffer_.find('\n');
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }

  std::string strategy_;
  std::int64_t workers_;
  FileDescriptor commands_, answers_, child_input_, child_output_;
  std::string buffer_;
  StepTimes times_;
  double state_bytes_ = 0;
  std::vector<double> of_speeds_, slow_share_;  // of each turn
  std::vector<launch::ChildProcess> processes_;
};

std::unique_ptr<Team> start_team(const StepBench& options, const std::string& strategy, std::int64_t workers,
                                 const std::string& folder) {
  auto team = std::make_unique<Team>(strategy, workers);
  for (std::int64_t rank = 0; rank < workers; ++rank) {
    std::vector<std::string> words{"bench", "step"};
    const auto add = [&](const char* flag, std::string value) { words.insert(words.end(), {flag, std::move(value)}); };
    add("--rank-folder", folder);
    add("--rank", std::to_string(rank));
    add("--workers", std::to_string(workers));
    add("--strategies", strategy.substr(0, strategy.find('+')));
    add("--model", options.model);
    add("--batch", std::to_string(options.batch));
    add("--threads", std::to_string(options.threads));
    add("--steps", std::to_string(options.steps));
    add("--optimizer", options.optimizer);
    add("--backend", options.backend);
    add("--slow", fmt::format("{}", options.slow));
    if (strategy == kOverlapped) words.emplace_back("--overlap");
    team->start({own_program(), words, {}}, rank);
  }
  return team;
}

std::unique_ptr<Team> start_ddp(const StepBench& options, std::int64_t workers, const std::string& folder) {
  auto team = std::make_unique<Team>("ddp", workers);
  const std::string threads = std::to_string(options.threads);
  // Debian's packages belong to the system's Python, whatever other one comes first in PATH.
  const std::string python = launch::find_program("/usr/bin/python3").value_or("python3");
  for (std::int64_t rank = 0; rank < workers; ++rank) {
    team->start(
        {python,
         {"-c", std::string(kDdpPeer), std::to_string(rank), std::to_string(workers), folder + "/ddp", options.model,
          std::to_string(options.batch), threads, std::to_string(options.steps), options.optimizer},
         {{"OMP_NUM_THREADS", threads},
          {"OPENBLAS_NUM_THREADS", threads},
          {"GLOO_SOCKET_IFNAME", "lo"},
          {"PYTHONWARNINGS", "ignore"}}},
        rank);
  }
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
  std::vector<std::string> names = strategies::strategy_names();
  names.emplace_back(kOverlapped);
  for (const std::string& strategy : options.strategies) {
    if (std::find(names.begin(), names.end(), strategy) == names.end())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("no strategy \"{}\"{}", strategy, did_you_mean(strategy, names)), "--strategies");
  }
  if (!options.against.empty() && options.against != "ddp")
    throw Error(ErrorKind::kInvalidInput, fmt::format("cannot compare with \"{}\"", options.against), "--against",
                "Peers are: ddp.");
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
