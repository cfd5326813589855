// local_sgd: workers train alone for some steps and then average. Over any group.
//
// A worker's step is made of its own lanes (replica/replica_strategy.h): the gradient is the mean over its own samples,
// clipped by its own norm, and a gradient that is not finite skips the step on that worker alone. Nobody waits for
// anybody until the average, after every `period` steps of the job or at the end of every epoch:
//   change  = mean over the workers of (parameters - anchor), weighted by the samples they trained since the last one
//   v'      = outer_momentum * v + change          (BMUF; SlowMo, with the inner rate inside the change)
//   anchor' = parameters' = anchor + outer_lr * v'
// The anchor is what all workers had after the average before. While the first `averaged_steps` steps last, every step
// is averaged and the outer rate and momentum wait ("post-local SGD"). Buffers are averaged with the same weights,
// integer ones taken from worker 0. The optimizer's state is averaged too, and each tensor's count of updates becomes
// the highest; or with average_state off every worker keeps its own, and a checkpoint holds worker 0's.
//
// The result is deterministic but depends on the number of workers. Between averages committed() is this worker's own
// state, and an outcome's loss and score are this worker's, scaled to the step; at an average they are everybody's.
// The norm is always this worker's. A request to stop is agreed on at the next average. synchronize() averages at once.
// v is a part of the committed state ("outer_momentum"): checkpoints carry it.
//
// A failure before the last collective of an average ends leaves the committed version as it was.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/strategies/strategy_choice.h"

namespace muster::strategies {

struct LocalSgd {
  std::int64_t period = 8;          // steps from average to average; 0: an epoch
  std::int64_t averaged_steps = 0;  // post-local: so many steps at the start of the job are averaged one by one
  double outer_lr = 1;              // of the averaged change
  double outer_momentum = 0;        // over averages; at least 0 and below 1
  bool average_state = true;        // average the optimizer's state too; false: each worker keeps its own

  static constexpr std::string_view kName = "local_sgd";

  Traits traits() const;
  void add_keys(Section& parallel);
  StateMemory memory(const StateFigures& figures) const;
  std::unique_ptr<Strategy> make(StrategyOptions needs) const;
};

}  // namespace muster::strategies
