#include "muster/cli/workers.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "muster/base/error.h"
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

int supervise_workers(const launch::Command& command, int workers, std::chrono::duration<double> grace,
                      std::function<std::string(std::uint64_t step, int lane)> describe_lane) {
  SignalWatch signals(grace + std::chrono::seconds(5), [](const std::string&) {});
  launch::SupervisorOptions options;
  options.workers = options.seats = workers;
  options.describe_lane = std::move(describe_lane);
  options.requested_signal = [&] { return signals.exit_code() == 0 ? 0 : signals.exit_code() - 128; };
  // On a terminal the line that the progress bar stands in is cleared first.
  options.tell = [](const std::string& message) {
    fmt::print(stderr, "{}muster: {}\n", ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", message);
  };
  return launch::Supervisor(command, options).run();
}

}  // namespace muster::cli
