// A worker of a job: the one type by which everybody speaks of it. Its supervisor keeps it and decides by it
// (membership.h); the record (job_record.h) holds who it is, `muster status` (job_status.h) also what it is at.
//
// A worker has a seat, and processes come and go on it. Its life: empty, starting, ready, running; the other states are
// those of a member's process that is looked at later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/process.h"

namespace muster::control {

enum class WorkerState {
  kEmpty,     // nobody is there
  kStarting,  // a process that prepares itself
  kReady,     // it waits to be let in
  kRunning,   // a member of the present generation
  kStopped,   // the same, and stopped by a signal
  kGone,      // it was a member, and its process is gone
};
std::string_view to_string(WorkerState state);
// Nothing for a name of a state that this version does not know.
std::optional<WorkerState> worker_state_named(std::string_view name);
// Of a member whose process looks like that.
WorkerState state_of_member(ProcessState process);

struct Worker {
  int rank = 0;         // its seat
  ProcessId process{};  // that is there
  int restarts = 0;     // processes that were there before it
  WorkerState state = WorkerState::kEmpty;
  // What a member is at, for those who watch.
  std::optional<std::uint64_t> lane{};
  std::optional<std::uint64_t> step{};
  std::string waits_for{};  // in words; empty: it computes
  double seconds = 0;       // for which it has been at that
  std::string stage{};      // of a pipeline: its row and stage, as "0.1"; empty: it has none
  // What decisions go by; known to its supervisor alone.
  Clock::Instant started{};  // its process
  Clock::Instant entered{};  // as a member
  Clock::Instant failed{};   // the last process that did
  int failures = 0;          // in a row; forgotten when a member has lasted (kForgiven)
  bool lost = false;         // it was a member of the present generation, and is dead
  bool leaving = false;      // told to go, and its death is not confirmed yet
  bool done = false;         // it has left in good order: nobody takes its place

  bool member() const { return state == WorkerState::kRunning; }
  bool operator==(const Worker&) const = default;
};

}  // namespace muster::control
