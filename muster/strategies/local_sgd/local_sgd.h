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
// restore() starts v anew: it is in no checkpoint.
//
// A failure before the last collective of an average ends leaves the committed version as it was.
#pragma once

#include <memory>

#include "muster/strategies/strategy.h"

namespace muster::strategies {

// Throws Error{kInvalidInput} naming an option that is out of its range.
std::unique_ptr<Strategy> make_local_sgd(StrategyOptions options);

}  // namespace muster::strategies
