// The job of a run as it is now: as it was started, with the changes that `muster set` has made since (run_changes.h).
// All workers agree on the step from which on a change counts, and make it there.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/trainer/run_changes.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_parts.h"

namespace muster::trainer {

class RunJob {
 public:
  // Both outlive it.
  RunJob(RunParts& parts, RunLeader& leader) : parts_(parts), leader_(leader) {}

  // After every meeting, by all workers: what is written down counts, and what was agreed on since is agreed on again.
  void enter();
  // Before a step, by all workers: makes the changes that count from it on. Throws kDamaged, kIo, kResource.
  void make_changes();
  // What this worker proposes in the step that begins next; 0: nothing. REQUIRES: enter().
  std::uint64_t proposal();
  // The last change that counts in `step`; 0: none. REQUIRES: enter().
  std::uint64_t change_at(std::uint64_t step) const { return changes_->number_at(step); }

  const std::optional<AutoInteger>& checkpoint_every_steps() const { return every_steps_; }
  std::uint64_t checkpoint_every_epochs() const { return static_cast<std::uint64_t>(every_epochs_); }

 private:
  void take_changes_of_leader();
  void agree_on_changes(std::uint64_t step);
  void adopt_changes(std::uint64_t step);

  RunParts& parts_;
  RunLeader& leader_;
  SessionCore& session_ = parts_.session;
  std::optional<RunChanges> changes_;
  std::vector<std::string> adopted_;  // the changes that the session and the two below know of
  std::optional<AutoInteger> every_steps_ = parts_.job.checkpoint.every_steps;
  std::int64_t every_epochs_ = parts_.job.checkpoint.every_epochs;
};

}  // namespace muster::trainer
