// The figures of a step out of what its lanes told. Apart from the header, so that programs do not see how lanes tell
// it.
#include "muster/strategies/step_outcome.h"

#include "muster/strategies/lane_result.h"

namespace muster::strategies {

void StepOutcome::take(const LaneResult& totals, double told) {
  if (told > 0) {
    loss = totals.report.loss_sum / told;
    score = totals.report.score * (static_cast<double>(samples) / told);
  }
  figures = totals.report.figures;
  stop = totals.wishes.stop;
  change = totals.wishes.change;
  save = totals.wishes.save;
}

}  // namespace muster::strategies
