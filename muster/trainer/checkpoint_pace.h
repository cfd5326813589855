// When the next checkpoint is due with `checkpoint.every_steps = "auto"`: measures what checkpoints cost training,
// counts failures, and asks checkpoint_interval.h.
//
// A checkpoint's cost is the time for which training stood still, plus what the steps made while it was being written
// took longer than steps usually do. Time is time of training steps: waits for people, validations and downtime do not
// count. Only decides when files are written, never what is trained. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/trainer/checkpoint_interval.h"

namespace muster::trainer {

class CheckpointPace {
 public:
  explicit CheckpointPace(const IntervalLimits& limits = {});

  // A step was committed after `seconds`; `writing`: a checkpoint was being written after it.
  void step_done(double seconds, bool writing);
  // A checkpoint was handed to the writer, for which training stood still for `blocked_seconds`.
  void saved(double blocked_seconds);
  // A worker was lost, or the run ended without having been asked to.
  void failed();

  bool due() const { return since_saved_ >= decision_.seconds && !saving_; }
  const IntervalDecision& decision() const { return decision_; }
  // The decision's reason if the interval is another one, by a fifth, than what was told last.
  std::optional<std::string> news();

  // What a later life of the run, or the next leader, has to know.
  Json to_json() const;
  void take(const Json& json, const std::string& where);

 private:
  void decide();

  // constant after construction
  const IntervalLimits limits_;

  IntervalDecision decision_;  // of the last checkpoint's end, or failure: a step is no place for arithmetic
  double trained_ = 0;
  std::uint64_t failures_ = 0;
  double since_saved_ = 0;
  std::deque<double> usual_steps_;  // the last ones during which nothing was written
  double usual_sum_ = 0;
  std::deque<double> costs_;  // of the last checkpoints
  bool saving_ = false;
  double blocked_ = 0;  // by the one that is being written
  double slower_ = 0;   // the steps since, in all
  double told_ = 0;     // the interval
};

}  // namespace muster::trainer
