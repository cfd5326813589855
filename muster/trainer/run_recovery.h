// How a worker becomes one of those who train a run, again after each loss, and what it does where nobody is there to
// go on with.
//
// A meeting ends with all workers knowing what the leader knows. What is done in between goes by the committed state,
// so that it can be done again (recovery.h). Thread safety: one thread.
#pragma once

#include <optional>

#include "muster/base/error.h"
#include "muster/strategies/step_outcome.h"
#include "muster/trainer/run_job.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_parts.h"
#include "muster/trainer/run_saver.h"
#include "muster/trainer/run_steps.h"

namespace muster::trainer {

class RunRecovery {
 public:
  // All outlive it.
  RunRecovery(RunParts& parts, RunLeader& leader, RunJob& job, RunSteps& steps, RunSaver& saver)
      : parts_(parts), leader_(leader), job_(job), steps_(steps), saver_(saver) {}

  // Once, before the first step. The first worker finds or makes the folder and, where the state is shared, fills it
  // from the checkpoint; the others are told. Throws Error{kPeerLost} among others: then recover().
  void meet();
  // After `loss`: goes on with those who are left or have come. Throws kPeerLost when another one is lost meanwhile,
  // and what ended the wait for others where there is nobody to go on with: given_up() then.
  void recover(const Error& loss);
  // Nobody was there to go on with in time, or this worker was told to end: what is committed was kept.
  bool given_up() const { return given_up_; }

 private:
  std::optional<strategies::StepOutcome> rejoin();
  void settle();

  RunParts& parts_;
  RunLeader& leader_;
  RunJob& job_;
  RunSteps& steps_;
  RunSaver& saver_;
  SessionCore& session_ = parts_.session;
  bool given_up_ = false;
};

}  // namespace muster::trainer
