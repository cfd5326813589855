// Which steps of a run get a row of metrics.jsonl, and what it tells of them. Pure; no torch here.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/strategies/step_outcome.h"

namespace muster::trainer {

// What a row tells: of its step alone where workers go together, else of all that was heard since the row before,
// because what others have done is heard of in any step, and in some of nothing.
struct StepsTold {
  double loss = 0;  // mean
  double score = 0;
  double samples = 0;
  double seconds = 0;
  double gradient_norm = 0;

  void add(const strategies::StepOutcome& outcome, double its_seconds);
  double mean_score() const;
  double samples_per_second() const;
};

// Thread safety: one thread.
class StepRows {
 public:
  // About a hundred rows an epoch, its last step among them; and each step that was skipped. `in_epoch` counts the
  // steps of the epoch from 1. Nothing: this step has no row.
  std::optional<StepsTold> add(std::uint64_t in_epoch, std::uint64_t steps_per_epoch,
                               const strategies::StepOutcome& outcome, double seconds);

 private:
  StepsTold untold_;
};

}  // namespace muster::trainer
