// Workers need no group of their own for their turns: all make as many steps as there will be turns for, the first one
// waits before each turn until it is told to begin, and the others wait for it in the step.
#include "muster/cli/bench/host_roles.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/version.h"
#include "muster/cli/bench/link_probe.h"
#include "muster/cli/bench/step_teams.h"
#include "muster/cli/bench/team.h"
#include "muster/cli/workers.h"
#include "muster/control/cluster_client.h"
#include "muster/coordinator/agent.h"
#include "muster/launch/environment.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/worker_place.h"

namespace muster::cli {
namespace {

// Nobody is to be given up because the machine has others to serve.
constexpr double kPatienceSeconds = 120;

std::int64_t most_hosts(const StepBench& options) {
  return options.hosts + (options.joins ? 1 : 0);
}

std::int64_t workers_of_all(const StepBench& options) {
  return most_hosts(options) * options.workers.front();
}

coordinator::CoordinatedJob bench_job(const StepBench& options) {
  coordinator::CoordinatedJob job;
  job.name = "bench";
  job.least_workers = job.most_workers = static_cast<int>(options.workers.front());
  job.grace = std::chrono::seconds(5);
  job.watch = watch_options(kPatienceSeconds, kPatienceSeconds, kPatienceSeconds);
  job.folder = coordinator::make_job_folder("runs", [&] { return trainer::RunFolder::make("runs", job.name); });
  job.command = {own_program(), step_words(options, options.overlap ? kEarly : options.strategies.front()), {}};
  std::vector<std::string>& words = job.command.arguments;
  words.insert(words.end(), {"--role", "worker", "--turns", options.turns});
  words.insert(words.end(), {"--hosts", std::to_string(options.hosts)});
  words.insert(words.end(), {"--workers", std::to_string(options.workers.front())});
  return job;
}

void require_good_end(int code) {
  if (code != 0) throw Error(ErrorKind::kPeerLost, fmt::format("the workers ended with exit code {}", code));
}

void coordinate_bench(const StepBench& options) {
  coordinator::CoordinatedJob job = bench_job(options);
  coordinator::JobHosts hosts;
  hosts.least = static_cast<std::size_t>(options.hosts);
  hosts.most = static_cast<std::size_t>(most_hosts(options));
  hosts.lanes = static_cast<std::size_t>(workers_of_all(options));
  hosts.patience = std::chrono::seconds(static_cast<int>(kPatienceSeconds));
  hosts.interface = kHostInterface;
  hosts.listen.address = options.address;
  hosts.listen.trust.certs = options.certs;
  job.hosts = std::move(hosts);
  require_good_end(supervise_workers(std::move(job)));
}

void take_part_in_bench(const StepBench& options) {
  control::ClusterTarget target;
  target.address = options.address;
  target.trust.certs = options.certs;
  control::ClusterClient coordinator(target);
  coordinator::AgentOptions agent;
  agent.card.version = version();
  agent.card.name = host_name();
  agent.card.cores = usable_cores(launch::granted_cores()).usable;
  agent.card.most_workers = static_cast<int>(options.workers.front());
  agent.interface = kHostInterface;
  agent.job = [&](const control::Welcome&, std::string&) { return bench_job(options); };
  agent.tell = tell;
  require_good_end(coordinator::Agent(coordinator, std::move(agent)).run({}));
}

void work_in_turns(const StepBench& options) {
  const strategies::Supervised supervised = trainer::supervised_worker(launch::detect_world());
  const bool first = supervised.founds_job();
  const std::int64_t workers = workers_of_all(options);
  std::ifstream asks;
  std::ofstream answers;
  if (first) {
    asks.open(options.turns + ".in");
    answers.open(options.turns + ".out");
  }
  StepContender contender(options, options.batch * workers, workers, options.strategies.front(), {{}, supervised});
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    std::string line;
    if (first && !std::getline(asks, line)) return;
    StepTimes times;
    contender.turn(times);
    if (!first) continue;
    Json answer = to_json(times);
    answer["state_bytes"] = contender.state_bytes();
    answers << answer.dump() << std::endl;
  }
}

// Until it is killed: how long each step took, and when it was over.
void write_down_steps(const StepBench& options) {
  const strategies::Supervised supervised = trainer::supervised_worker(launch::detect_world());
  const std::int64_t workers = workers_of_all(options);
  std::ofstream steps(options.turns + ".steps", std::ios::trunc);
  StepContender contender(options, options.batch * workers, workers, options.strategies.front(), {{}, supervised});
  for (;;) {
    StepTimes times;
    contender.step(times);
    const std::chrono::duration<double> now = system_clock().wall().time_since_epoch();
    const Json line{{"at", now.count()}, {"ms", times.total.front()}};
    steps << line.dump() << std::endl;
  }
}

}  // namespace

void run_host_role(const StepBench& options) {
  if (options.role == "coordinator") return coordinate_bench(options);
  if (options.role == "agent") return take_part_in_bench(options);
  if (options.role == "worker") return options.joins ? write_down_steps(options) : work_in_turns(options);
  const std::uint64_t bytes = probe_bytes(options.link);
  const double seconds =
      options.role == "link-listens" ? probe_link_from(options.address, bytes) : probe_link_to(options.address, bytes);
  fmt::print("{}\n", Json{{"seconds", seconds}, {"bytes", bytes}}.dump());
}

}  // namespace muster::cli
