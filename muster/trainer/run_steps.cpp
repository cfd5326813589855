// Figures of a step go into sums of the epoch, which are a part of every checkpoint, and from there into the report.
// How many steps were skipped the session counts, so that a loss does not count one twice.
#include "muster/trainer/run_steps.h"

#include <chrono>

#include <fmt/format.h>

namespace muster::trainer {

void RunSteps::begin() {
  begun_ = Begun{parts_.session.cursor(), parts_.session.learning_rate(), system_clock().now()};
  Progress& progress = leader_.known().progress;
  if (begun_->at.position == 0) progress.loss_sum = progress.score_sum = progress.samples = 0;
}

void RunSteps::committed(const strategies::StepOutcome& outcome) {
  const data::Cursor before = begun_->at;
  const double seconds = std::chrono::duration<double>(system_clock().now() - begun_->start).count();
  seconds_ += seconds;
  samples_ += outcome.samples;
  leader_.pace().step_done(seconds, leader_.writing());
  leader_.known().stop = outcome.stop;
  leader_.known().change = outcome.change;
  Progress& progress = leader_.known().progress;
  progress.skipped = parts_.session.skipped_steps();
  if (outcome.applied) {
    progress.loss_sum += outcome.loss * static_cast<double>(outcome.samples);
    progress.score_sum += outcome.score;
    progress.samples += static_cast<double>(outcome.samples);
  } else if (progress.skipped.in_a_row == 1) {
    leader_.warn(
        fmt::format("step {} was skipped: its gradient is not finite (loss {})", before.step + 1, outcome.loss));
  }
  leader_.report().step(before, begun_->lr, seconds, outcome, progress, leader_.observer());
  leader_.reported();
  begun_.reset();
}

void RunSteps::end_after_loss(const std::optional<strategies::StepOutcome>& outcome) {
  if (outcome && begun_) committed(*outcome);
  begun_.reset();
}

}  // namespace muster::trainer
