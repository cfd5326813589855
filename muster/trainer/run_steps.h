// What the steps of a run come to, for its progress, its reports and its pace of checkpoints: each step is accounted
// for once, also one of which a worker learns only after a loss that it was committed.
//
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"
#include "muster/strategies/step_outcome.h"
#include "muster/trainer/run_leader.h"
#include "muster/trainer/run_parts.h"

namespace muster::trainer {

class RunSteps {
 public:
  // Both outlive it.
  RunSteps(RunParts& parts, RunLeader& leader) : parts_(parts), leader_(leader) {}

  // The step at the session's cursor begins.
  void begin();
  // Where it began. REQUIRES: a step was begun, and neither committed nor forgotten.
  const data::Cursor& begun_at() const { return begun_->at; }
  // The session has committed it.
  void committed(const strategies::StepOutcome& outcome);
  // The step in work is over after a loss: with `outcome` it was committed after all, by whomever.
  void end_after_loss(const std::optional<strategies::StepOutcome>& outcome);

  // Of the steps that this process was there for.
  double seconds() const { return seconds_; }
  double samples_per_s() const { return seconds_ > 0 ? static_cast<double>(samples_) / seconds_ : 0; }

 private:
  struct Begun {
    data::Cursor at;
    double lr = 0;
    Clock::Instant start;
  };

  RunParts& parts_;
  RunLeader& leader_;
  std::optional<Begun> begun_;  // the step in work
  double seconds_ = 0;
  std::uint64_t samples_ = 0;
};

}  // namespace muster::trainer
