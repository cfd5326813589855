#include "muster/launch/local_workers.h"

#include <signal.h>

#include "muster/base/clock.h"

namespace muster::launch {
namespace {

constexpr std::chrono::milliseconds kPollInterval{2};

}  // namespace

LocalWorkers::LocalWorkers(const Command& command, int workers) : store_("muster-job-") {
  for (int rank = 0; rank < workers; ++rank) {
    Command own = command;
    own.environment["MUSTER_RANK"] = std::to_string(rank);
    own.environment["MUSTER_SIZE"] = std::to_string(workers);
    own.environment["MUSTER_STORE"] = store_.path().string();
    own.own_group = true;
    workers_.emplace_back(own);
  }
}

void LocalWorkers::signal_all(int signal) const {
  for (const ChildProcess& worker : workers_)
    worker.kill(signal);
}

std::optional<LostWorker> LocalWorkers::watch(const WatchOptions& options) {
  std::optional<LostWorker> lost;
  std::optional<Deadline> patience;
  int passed_on = 0;
  for (;;) {
    std::size_t running = 0;
    for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
      const std::optional<Ending> ending = workers_[rank].poll();
      if (!ending) {
        ++running;
        continue;
      }
      // After a signal everybody ends with a code of its own making; the first worker speaks for all.
      const bool speaks = passed_on == 0 ? !lost : rank == 0;
      if (!ending->good() && speaks) lost = LostWorker{static_cast<int>(rank), workers_[rank].pid(), *ending};
      if (!ending->good() && !patience) patience = Deadline::after(options.grace);
    }
    if (running == 0) return lost;
    const int requested = options.requested_signal();
    if (requested != passed_on && requested != 0) {
      signal_all(requested);
      passed_on = requested;
    }
    if (patience && patience->passed() && passed_on == 0) signal_all(SIGKILL);
    system_clock().sleep_for(kPollInterval);
  }
}

}  // namespace muster::launch
