// The step of a session, lane by lane: begun, its lanes claimed, loaded and computed, some of them verified, committed.
//
// It is the same for a loop over lanes, which asks for the next lane when it has computed one, and for a whole step.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/compute/slice_update.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/lane_check.h"
#include "muster/trainer/lane_executor.h"
#include "muster/trainer/lane_feed.h"
#include "muster/trainer/phase_times.h"
#include "muster/trainer/session_options.h"
#include "muster/trainer/skipped_steps.h"

namespace muster::trainer {

class StepDriver {
 public:
  struct Parts {
    const SessionOptions& options;
    strategies::Strategy& strategy;
    LaneExecutor& executor;
    LaneCheck check;
    std::function<compute::UpdateRule()> rule;            // of the next step
    std::function<void(const data::Cursor&)> begin_step;  // before anything of it
    std::function<bool()> stop_asked;                     // before each lane: whether to tell all of a wish to stop
  };
  explicit StepDriver(Parts parts) : parts_(std::move(parts)) {}

  // The next lane of the step in work, or of the step at `cursor`, which is begun, if there is none in work; the lane
  // before is finished. Null when the step has been committed: outcome() tells how. Throws what the strategy, the feed
  // and the executor throw; then abandon() it, or go on.
  Lane* next(LaneFeed& feed, const data::Cursor& cursor);
  // Instead of next(), for lanes that several workers compute together: begins the step at `cursor`, has `compute`
  // compute what is this worker's of all lanes, and commits. `take` gives the samples of a lane. Throws as next().
  using Take = std::function<data::Batch(std::size_t lane)>;
  void run(LaneFeed& feed, const data::Cursor& cursor,
           const std::function<void(const data::StepPlan& plan, const Take& take, PhaseTimes& times)>& compute);
  // Forgets the step in work.
  void abandon();

  const strategies::StepOutcome& outcome() const { return outcome_; }
  // What a step that was committed while this worker rejoined came to.
  void count(const strategies::StepOutcome& committed);
  // Of the steps that were counted; a run that goes on from earlier ones says how many those have skipped.
  const SkippedSteps& skipped() const { return skipped_; }
  void go_on_after(const SkippedSteps& skipped) { skipped_ = skipped; }
  const PhaseTimes& times() const { return times_; }

 private:
  void begin(LaneFeed& feed, const data::Cursor& cursor);
  void read_ahead(LaneFeed& feed);
  std::optional<std::size_t> next_verification();
  data::Batch take(LaneFeed& feed, std::size_t index);
  Lane& prepare(LaneFeed& feed, std::size_t index, bool repeated);
  void complete(LaneFeed& feed);
  void compare_with_first(const Lane& lane) const;
  void commit();

  Parts parts_;
  // The step in work.
  std::optional<data::StepPlan> plan_;
  std::vector<std::size_t> done_;  // lanes of it that this worker has taken
  std::size_t next_to_verify_ = 0;
  Clock::Instant compute_start_;
  // What happened.
  strategies::StepOutcome outcome_;
  SkippedSteps skipped_;
  PhaseTimes times_;
};

}  // namespace muster::trainer
