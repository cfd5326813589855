// Puts supervisor, service and signals together for every command that has workers. Whoever presses Ctrl-C is told what
// follows from it before it does.
#include "muster/cli/workers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/memory.h"
#include "muster/base/process.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/cli/job_training.h"
#include "muster/cli/signals.h"
#include "muster/control/control_client.h"
#include "muster/control/take_over_checks.h"
#include "muster/coordinator/coordinator.h"
#include "muster/launch/surroundings.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

using coordinator::CoordinatedJob;
using coordinator::Coordinator;

constexpr std::chrono::milliseconds kLiveInterval{500};
constexpr std::chrono::seconds kPlainInterval{10};
// Workers outlive this process unless it kills them first.
constexpr std::chrono::milliseconds kLongestKill{3000};
constexpr std::chrono::seconds kAgentDeath{30};
constexpr std::chrono::milliseconds kAgentPoll{20};
constexpr std::chrono::seconds kCoordinatorAnswer{5};

// One line about a job that was taken over: rewritten on a terminal, repeated now and then elsewhere.
class TakeOverView {
 public:
  explicit TakeOverView(const Coordinator& coordinator)
      : coordinator_(coordinator), live_(::isatty(STDERR_FILENO) != 0) {}
  ~TakeOverView() {
    if (live_) fmt::print(stderr, "\r\033[K");
  }

  void show() {
    const auto now = system_clock().now();
    if (shown_ && now - *shown_ < (live_ ? std::chrono::nanoseconds(kLiveInterval) : kPlainInterval)) return;
    const control::JobStatus status = coordinator_.status();
    fmt::print(stderr, "{}muster: {} {}: step {} of {}, {} workers, {} samples/s{}", live_ ? "\r\033[K" : "",
               shown_ ? "watching" : "took over", status.job, grouped(status.step), grouped(status.total_steps),
               status.members.size(), grouped(static_cast<std::uint64_t>(status.samples_per_second)),
               live_ && shown_ ? "" : "\n");
    shown_ = now;
  }

 private:
  const Coordinator& coordinator_;
  const bool live_;
  std::optional<Clock::Instant> shown_;
};

// What a signal that ends the job leads to, in words.
std::string consequence(const Coordinator& coordinator) {
  const double grace = coordinator.job().grace.count();
  if (!coordinator.job().training->ours())
    return fmt::format("the workers are told to end (at most {:.0f} s; again to stop at once)", grace);
  if (!coordinator.trains()) return "ending; nothing was trained yet";
  return fmt::format("finishing the step and writing a checkpoint (at most {:.0f} s; again to stop at once)", grace);
}

int run_aloud(Coordinator& coordinator, const std::function<void()>& look) {
  // The workers have a grace period of their own: this process only makes sure that nothing outlives it by much.
  const SignalWatch signals(
      coordinator.job().grace + std::chrono::seconds(5),
      [&](const std::string& signal) { coordinator.note(fmt::format("{}: {}", signal, consequence(coordinator))); },
      kLongestKill);
  coordinator::Audience audience;
  audience.look = look;
  audience.requested_signal = [&signals] { return signals.for_workers(); };
  const int code = coordinator.run(audience);
  // Whatever a user's program returns then.
  return code != 0 && signals.exit_code() != 0 ? signals.exit_code() : code;
}

launch::Command server_command() {
  return {own_program(), {"server"}, {}};
}

// Nobody may think that it supervises workers that another one has taken over: it is killed, and its death awaited.
void end_agent(const control::JobRecord& record, const std::filesystem::path& run) {
  const std::optional<control::Lease> lease = record.lease();
  if (!lease || lease->holder.pid == 0 || state_of(lease->holder) == ProcessState::kGone) return;
  tell(fmt::format("the agent of this host (process {}) is ended; its workers are taken over", lease->holder.pid));
  launch::ChildProcess agent = launch::ChildProcess::adopt(lease->holder);
  agent.kill(SIGKILL);
  for (const Deadline deadline = Deadline::after(kAgentDeath); state_of(lease->holder) != ProcessState::kGone;) {
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, fmt::format("the agent (process {}) does not die", lease->holder.pid),
                  run.string(), "Look at what it hangs in; then try again.");
    system_clock().sleep_for(kAgentPoll);
  }
}

// This host becomes the coordinator's: its agent goes, its workers stay. The agent's folder is the caller's then, to be
// removed with the job: the agent cannot do it any more.
std::optional<TemporaryFolder> move_from_agent(const std::filesystem::path& run, const ClusterFlags& flags,
                                               coordinator::JobHosts& hosts, coordinator::RecordedJob& recorded) {
  if (flags.listen.empty())
    throw Error(ErrorKind::kInvalidInput, "this host has an agent of the job; where should the others find it?",
                run.string(), "Add --listen ADDRESS:PORT, one that the agents were given by --join.");
  hosts.listen = listen_by(flags);
  const control::ControlClient client(run);
  const auto refuse = [&](const std::string& address) {
    throw Error(ErrorKind::kMismatch, fmt::format("its coordinator answers, at {}", address), run.string(),
                "Only a job whose coordinator is lost can be taken over.");
  };
  if (client.status(Deadline::after(kCoordinatorAnswer)).live) refuse(recorded.cluster->listen);
  ClusterFlags before = flags;
  before.join = recorded.cluster->listen;
  for (const control::ClusterTarget& target : targets_of(before))
    if (target.address != flags.listen) hosts.before.push_back(target);
  // It may have given this host up, and live: then the agent here gets no answer that counts.
  for (const control::ClusterTarget& target : hosts.before)
    if (control::coordinator_answers(target, Deadline::after(kCoordinatorAnswer))) refuse(target.address);
  control::require_can_listen(hosts.listen);
  end_agent(client.record(), run);
  // The file of the agent goes with its folder; the run has the same.
  std::vector<std::string>& arguments = recorded.job.command.arguments;
  if (arguments.size() < 2) return std::nullopt;
  const std::filesystem::path file = std::exchange(arguments[1], std::filesystem::absolute(run / "job.toml").string());
  std::error_code code;
  const std::filesystem::path folder = file.parent_path();
  const bool of_an_agent = folder.filename().string().starts_with(kAgentFolderPrefix);
  if (!of_an_agent || !std::filesystem::exists(folder, code)) return std::nullopt;
  return TemporaryFolder::adopt(folder);
}

}  // namespace

// On a terminal the line that a progress bar stands in is cleared first.
void tell(const std::string& message) {
  fmt::print(stderr, "{}muster: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", message);
}

std::string memory_for_workers() {
  Memory memory = usable_memory();
  const std::optional<std::uint64_t> granted = launch::detect_surroundings().memory_bytes;
  if (granted && *granted < memory.usable_bytes) memory = {*granted, "what Slurm has granted on this node"};
  return fmt::format("{} {}", memory.usable_bytes, memory.reason);
}

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

launch::WorkerWatchOptions watch_options(double liveness_seconds, double hang_seconds, double start_seconds) {
  const auto time = [](double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  };
  return {time(liveness_seconds), time(hang_seconds), time(start_seconds)};
}

CoordinatedJob coordinated_job(const trainer::ResolvedJob& resolved) {
  const auto& parallel = resolved.job.parallel;
  CoordinatedJob job;
  job.name = resolved.job.name;
  job.least_workers = static_cast<int>(parallel.workers.least);
  job.most_workers = static_cast<int>(parallel.workers.most);
  job.grace = std::chrono::duration<double>(resolved.job.checkpoint.grace_seconds);
  job.watch = watch_options(parallel.liveness_seconds, parallel.hang_seconds, parallel.start_seconds);
  const strategies::ServerProcesses servers = parallel.chosen().server_processes();
  job.servers = servers.count;
  job.workers_serve = servers.workers_serve;
  job.copies = servers.copies;
  job.server_command = server_command();
  job.orphan =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(parallel.orphan_seconds));
  const auto& data = resolved.job.data;
  if (data.access == "fetch")
    job.data = coordinator::JobData{data.path, data.cache, static_cast<std::uint64_t>(data.cache_mb) << 20};
  job.training = std::make_shared<const JobTraining>(resolved);
  return job;
}

coordinator::JobHosts hosts_of(const trainer::ResolvedJob& resolved) {
  const auto& parallel = resolved.job.parallel;
  coordinator::JobHosts hosts;
  hosts.least = static_cast<std::size_t>(parallel.hosts.least);
  hosts.most = static_cast<std::size_t>(parallel.hosts.most);
  hosts.lanes = resolved.lanes;
  hosts.patience =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(parallel.host_seconds));
  hosts.interface = parallel.interface;
  hosts.job = resolved.text;
  return hosts;
}

int supervise_workers(CoordinatedJob job, const std::function<void(const std::string& run)>& begun) {
  Coordinator coordinator(std::move(job), tell);
  bool told = !begun;
  return run_aloud(coordinator, [&] {
    // Before that nobody knows where the run is.
    if (told || !coordinator.trains()) return;
    const std::string run = coordinator.status().run;
    told = !run.empty();
    if (told) begun(run);
  });
}

std::vector<control::ClusterTarget> targets_of(const ClusterFlags& flags) {
  std::vector<control::ClusterTarget> targets;
  std::istringstream addresses(flags.join);
  for (std::string address; std::getline(addresses, address, ',');) {
    ClusterFlags one = flags;
    one.join = address;
    targets.push_back(join_by(one));
  }
  if (targets.empty()) targets.push_back(join_by(flags));
  return targets;
}

int take_over_workers(const std::filesystem::path& run, ClusterFlags flags) {
  std::optional<coordinator::JobHosts> hosts;  // by the job file; nothing: it is a program of a user's
  bool replaced = false;                       // workers that are lost, and nothing else has to be taken over
  coordinator::RecordedJob recorded = coordinator::read_recorded_job(run, [&]() -> CoordinatedJob {
    std::error_code ignored;
    const std::filesystem::path file = run / "job.toml";
    if (!std::filesystem::exists(file, ignored)) return {};
    const trainer::ResolvedJob resolved = trainer::load_job(file, {});
    hosts = hosts_of(resolved);
    const strategies::Traits traits = resolved.job.parallel.chosen().traits();
    replaced = traits.replaces_workers && !traits.needs_servers;
    return coordinated_job(resolved);
  });
  // Workers of a fixed group have no next generation, and of programs nobody knows what they do.
  if (recorded.cluster && (!hosts || !replaced || recorded.job.data))
    throw Error(
        ErrorKind::kUnsupported,
        "a job of several hosts cannot be taken over where workers cannot be replaced, are served by parameter servers "
        "or get data from other hosts",
        run.string(),
        hosts ? "Its workers write a checkpoint and end by themselves (parallel.orphan_seconds); then resume it."
              : "End its workers on this host, and its agents; what the program has kept is where it left it.");
  std::optional<TemporaryFolder> agents;
  if (recorded.cluster) {
    control::LedCluster& cluster = *recorded.cluster;
    ++cluster.term;
    if (recorded.moves) {
      std::optional<TemporaryFolder> left = move_from_agent(run, flags, *hosts, recorded);
      if (left) agents.emplace(std::move(*left));
    }
    if (flags.listen.empty()) flags.listen = cluster.listen;
    if (!recorded.moves) hosts->listen = listen_by(flags);
    hosts->interface = flags.interface.empty() ? cluster.interface : flags.interface;
    hosts->arguments = cluster.arguments;
    hosts->taken_over = cluster;
    recorded.job.hosts = std::move(hosts);
  } else if (!flags.listen.empty()) {
    throw Error(ErrorKind::kInvalidInput, "this job has one host: nobody could join by --listen", run.string(),
                "Leave it out.");
  }
  Coordinator coordinator(std::move(recorded), tell);
  // What the workers print goes where the coordinator before let it go.
  TakeOverView view(coordinator);
  return run_aloud(coordinator, [&] { view.show(); });
}

}  // namespace muster::cli
