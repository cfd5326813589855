#include "muster/cli/workers.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/job_service.h"
#include "muster/cli/signals.h"
#include "muster/launch/local_workers.h"
#include "muster/launch/supervisor.h"

namespace muster::cli {

std::string own_program() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

int watch_workers(const launch::Command& command, int workers, std::chrono::duration<double> grace) {
  // Workers have a grace period of their own; this one only makes sure that nothing outlives it by much.
  SignalWatch signals(grace + std::chrono::seconds(5), [](const std::string&) {});
  launch::LocalWorkers processes(command, workers);
  launch::WatchOptions options;
  options.requested_signal = [&] { return signals.exit_code() == 0 ? 0 : signals.exit_code() - 128; };
  const std::optional<launch::LostWorker> lost = processes.watch(options);
  if (!lost) return 0;
  if (lost->ending.signal != 0)
    throw Error(ErrorKind::kPeerLost,
                fmt::format("worker {} (pid {}) was {}", lost->rank, lost->pid, to_string(lost->ending)), {},
                "Nothing that was committed to a checkpoint is lost: start again with --resume.");
  return lost->ending.exit_code;
}

int supervise_workers(const launch::Command& command, const SupervisedJob& job) {
  SignalWatch signals(job.grace + std::chrono::seconds(5), [](const std::string&) {});
  // On a terminal the line that the progress bar stands in is cleared first.
  const auto tell = [](const std::string& message) {
    fmt::print(stderr, "{}muster: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", message);
  };
  JobService service({job.name, job.text, job.least_workers, job.most_workers, tell});
  launch::SupervisorOptions options;
  options.seats = job.most_workers;
  options.liveness = std::chrono::duration_cast<std::chrono::nanoseconds>(job.liveness);
  options.hang = std::chrono::duration_cast<std::chrono::nanoseconds>(job.hang);
  options.describe_lane = job.describe_lane;
  options.tell = tell;
  options.requested_signal = [&] { return signals.exit_code() == 0 ? 0 : signals.exit_code() - 128; };
  options.wishes = [&] { return service.wishes(); };
  options.report = [&](const launch::SupervisorReport& report) { service.report(report); };
  try {
    const int code = launch::Supervisor(command, options).run();
    const bool stopped = signals.exit_code() != 0 || service.wishes().stop;
    service.end(stopped     ? control::JobPhase::kStopped
                : code == 0 ? control::JobPhase::kFinished
                            : control::JobPhase::kFailed,
                code == 0 || stopped ? "" : fmt::format("the workers ended with exit code {}", code));
    return code;
  } catch (const Error& error) {
    service.end(control::JobPhase::kFailed, error.message());
    throw;
  }
}

}  // namespace muster::cli
