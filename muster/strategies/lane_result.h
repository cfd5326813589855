// What a lane tells beside its gradient: figures of the result, which are summed, and wishes of its worker, which are
// not. However lanes travel, what a step's lanes tell together is folded here. No torch here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "muster/compute/lane_area.h"

namespace muster::strategies {

// What a worker wants all others to know with the step.
struct Wishes {
  bool stop = false;         // it was asked to stop
  std::uint64_t change = 0;  // the highest change of the job that it knows of
  bool save = false;         // it leads, and a checkpoint is due

  // What both wish together.
  Wishes& operator|=(const Wishes& other) {
    stop = stop || other.stop;
    change = std::max(change, other.change);
    save = save || other.save;
    return *this;
  }
  bool operator==(const Wishes&) const = default;
};

struct LaneResult {
  compute::LaneReport report;
  Wishes wishes;
};

// Of several lanes, or of parts of a step that were folded before: in their order, since sums of floating-point numbers
// depend on it. Throws kInvalidInput when they have more names of figures than fit between them.
template <typename Results>
LaneResult fold_reports(const Results& results) {
  LaneResult total;
  for (const LaneResult& result : results) {
    total.report.loss_sum += result.report.loss_sum;
    total.report.score += result.report.score;
    total.report.figures.add(result.report.figures);
    total.wishes |= result.wishes;
  }
  return total;
}

}  // namespace muster::strategies
