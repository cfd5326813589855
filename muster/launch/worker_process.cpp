// The worker's end is what counts, and the wrapper's exit code tells its reason. A good one is believed only of a
// worker that was done: a wrapper may have swallowed the failure.
#include "muster/launch/worker_process.h"

#include <signal.h>
#include <unistd.h>

#include "muster/base/process_signs.h"

namespace muster::launch {
namespace {

// For a wrapper to give the exit code of its worker.
constexpr std::chrono::seconds kWrapperPatience{1};

// A shell gives 128 + N when a signal has ended what it waited for.
Ending as_told_by_wrapper(const Ending& ending) {
  constexpr int kSignalled = 128;
  if (ending.signal != 0 || ending.exit_code <= kSignalled || ending.exit_code > kSignalled + SIGRTMAX) return ending;
  return {.signal = ending.exit_code - kSignalled};
}

}  // namespace

bool WorkerProcess::recognizes(const ProcessId& process) {
  if (process.pid == pid()) return true;
  if (worker_) return false;
  if (::getpgid(process.pid) != started_.pid() && !descends_from(process.pid, started_.pid())) return false;
  worker_.emplace(ChildProcess::adopt(process));
  return true;
}

std::optional<Ending> WorkerProcess::poll(bool done) {
  const std::optional<Ending> ending = started_.poll();
  if (!worker_) return ending;
  const bool worker_ended = worker_->poll().has_value();
  if (ending) {
    if (!worker_ended && !ending->good()) worker_->kill(SIGKILL);
    if (!worker_ended) return std::nullopt;
    // A wrapper's word is not enough: it may have swallowed the failure, or have left the worker alone.
    return ending->good() && !done ? Ending{.unknown = true} : as_told_by_wrapper(*ending);
  }
  const auto now = clock_.now();
  if (!worker_ended) return std::nullopt;
  if (!worker_ended_) worker_ended_ = now;
  if (!done && now - *worker_ended_ > kWrapperPatience) started_.kill(SIGKILL);
  return std::nullopt;
}

void WorkerProcess::kill(int signal) const {
  if (worker_) worker_->kill(signal);
  if (!worker_ || signal == SIGKILL) started_.kill(signal);
}

std::vector<int> WorkerProcess::handles() const {
  std::vector<int> handles;
  if (!started_.ended()) handles.push_back(started_.handle());
  if (worker_ && !worker_->ended()) handles.push_back(worker_->handle());
  return handles;
}

}  // namespace muster::launch
