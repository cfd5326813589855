// The workers of one job on this machine: started together, watched, and ended together.
//
// Every worker gets MUSTER_RANK, MUSTER_SIZE and MUSTER_STORE, a folder by which they find each other; what that leads
// to is join's business (environment.h). They are process groups of their own, so that a Ctrl-C at the terminal reaches
// this process alone, which passes it on once. Thread safety: one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/temporary_folder.h"
#include "muster/launch/child_process.h"

namespace muster::launch {

struct LostWorker {
  int rank = 0;
  pid_t pid = 0;
  Ending ending;
};

struct WatchOptions {
  // Signal to pass on to all workers, once; 0: none so far. Asked again and again while workers run.
  std::function<int()> requested_signal = [] { return 0; };
  // How long the others may take to end by themselves after one has ended badly; they are killed then.
  std::chrono::milliseconds grace{5000};
};

class LocalWorkers {
 public:
  // Starts `workers` processes. Throws kNotFound, kResource or kIo; then none is left.
  LocalWorkers(const Command& command, int workers);
  LocalWorkers(const LocalWorkers&) = delete;
  LocalWorkers& operator=(const LocalWorkers&) = delete;

  // Until all have ended. The first that ended badly, if one did: by exit code or signal. When a signal was passed on
  // a non-zero exit code is what was asked for, and rank 0's end is given.
  std::optional<LostWorker> watch(const WatchOptions& options);

  pid_t pid(int rank) const { return workers_[static_cast<std::size_t>(rank)].pid(); }

 private:
  void signal_all(int signal) const;

  TemporaryFolder store_;
  std::vector<ChildProcess> workers_;  // ended before the store is removed
};

}  // namespace muster::launch
