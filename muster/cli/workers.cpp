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
#include "muster/cli/job_training.h"
#include "muster/cli/signals.h"
#include "muster/control/job_record.h"
#include "muster/coordinator/coordinator.h"
#include "muster/launch/surroundings.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

using coordinator::CoordinatedJob;
using coordinator::Coordinator;

// Workers outlive this process unless it kills them first.
constexpr std::chrono::milliseconds kLongestKill{3000};

// What a signal that ends the job leads to, in words.
std::string consequence(const Coordinator& coordinator) {
  const double grace = coordinator.job().grace.count();
  if (!coordinator.job().training->ours())
    return fmt::format("the workers are told to end (at most {:.0f} s; again to stop at once)", grace);
  if (!coordinator.trains()) return "ending; nothing was trained yet";
  return fmt::format("finishing the step and writing a checkpoint (at most {:.0f} s; again to stop at once)", grace);
}

launch::Command server_command() {
  return {own_program(), {"server"}, {}};
}

}  // namespace

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

// On a terminal the line that a progress bar stands in is cleared first.
void tell(const std::string& message) {
  fmt::print(stderr, "{}muster: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", message);
}

std::string memory_for_workers() {
  const Memory memory = launch::memory_in(launch::detect_surroundings());
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
  if (data.access != "shared")
    job.data = coordinator::JobData{data.path, data.cache, static_cast<std::uint64_t>(data.cache_mb) << 20,
                                    data.access == "copy" ? static_cast<std::uint32_t>(data.copies) : 0};
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

int supervise_workers(CoordinatedJob job, const std::function<void(const std::string& run)>& begun,
                      const std::function<void()>& look, const std::function<void(bool stopped)>& ended) {
  Coordinator coordinator(std::move(job), tell);
  bool told = !begun;
  // What was asked for stays asked for when the job is over.
  const auto tell_end = [&] {
    if (ended) ended(coordinator.status().state == control::to_string(control::JobPhase::kStopping));
  };
  const auto look_on = [&] {
    if (look) look();
    // Before that nobody knows where the run is.
    if (told || !coordinator.trains()) return;
    const std::string run = coordinator.status().run;
    told = !run.empty();
    if (told) begun(run);
  };
  try {
    const int code = run_aloud(coordinator, look_on);
    tell_end();
    return code;
  } catch (...) {
    tell_end();
    throw;
  }
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

}  // namespace muster::cli
