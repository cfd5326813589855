// The process of a worker as its supervisor has started it, and the worker itself where that is another one: the child
// of a wrapper script that does not exec. Both are watched, and neither outlives the other for long.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/launch/child_process.h"

namespace muster::launch {

class WorkerProcess {
 public:
  // As ChildProcess, in a group of its own. The clock outlives it.
  explicit WorkerProcess(const Command& command, const Clock& clock = system_clock())
      : started_(in_own_group(command)), clock_(clock) {}
  // Takes a worker over that another process has started.
  static WorkerProcess adopt(const ProcessId& worker, const Clock& clock = system_clock()) {
    return WorkerProcess(ChildProcess::adopt(worker), clock);
  }

  pid_t started() const { return started_.pid(); }
  // Of the worker itself, as far as it is known.
  pid_t pid() const { return worker_ ? worker_->pid() : started_.pid(); }
  // Whether `process` is this worker: the one that was started, or one that it has started.
  bool recognizes(const ProcessId& process);

  // Nothing while something of it runs. `done`: the worker itself has said that its work is done, so a wrapper may take
  // its time; else it has a moment to say how its worker ended, and is killed. A wrapper that ends badly takes its
  // worker with it, and one that ends well while its worker runs leaves it alone.
  std::optional<Ending> poll(bool done);
  // SIGKILL reaches everything that was started, another signal the worker itself.
  void kill(int signal) const;
  // Descriptors that become readable when a part of it ends; -1 where the kernel has none.
  std::vector<int> handles() const;

 private:
  WorkerProcess(ChildProcess started, const Clock& clock) : started_(std::move(started)), clock_(clock) {}
  static Command in_own_group(Command command) {
    command.own_group = true;
    return command;
  }

  ChildProcess started_;
  const Clock& clock_;
  std::optional<ChildProcess> worker_;  // when it is another one
  std::optional<Clock::Instant> worker_ended_;
};

}  // namespace muster::launch
