// The words for the states of a worker: they stand in records that are read back by them, so that no two states have
// the same.
#include "muster/control/worker.h"

#include "muster/base/check.h"

namespace muster::control {

std::string_view to_string(WorkerState state) {
  switch (state) {
    case WorkerState::kEmpty:
      return "empty";
    case WorkerState::kStarting:
      return "starting";
    case WorkerState::kReady:
      return "ready";
    case WorkerState::kRunning:
      return "running";
    case WorkerState::kStopped:
      return "stopped";
    case WorkerState::kGone:
      return "gone";
  }
  MUSTER_CHECK(false, "a WorkerState without a name");
}

std::optional<WorkerState> worker_state_named(std::string_view name) {
  for (int state = 0; state <= static_cast<int>(WorkerState::kGone); ++state)
    if (to_string(static_cast<WorkerState>(state)) == name) return static_cast<WorkerState>(state);
  return std::nullopt;
}

WorkerState state_of_member(ProcessState process) {
  switch (process) {
    case ProcessState::kRunning:
      return WorkerState::kRunning;
    case ProcessState::kStopped:
      return WorkerState::kStopped;
    case ProcessState::kGone:
      return WorkerState::kGone;
  }
  MUSTER_CHECK(false, "a ProcessState that no worker can have");
}

}  // namespace muster::control
