// What a step has come to, for whoever made it. No torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "muster/compute/figures.h"

namespace muster::strategies {

struct LaneResult;  // lane_result.h

struct StepOutcome {
  bool applied = true;       // false: a gradient was not finite; step and cursor advanced, the model did not change
  double gradient_norm = 0;  // before clipping
  double loss = 0;           // mean over the step's samples
  double score = 0;          // sum over the step's samples
  std::uint64_t samples = 0;
  double waited = 0;           // seconds of this worker, for others
  double exchanged = 0;        // seconds in which this worker exchanged sums with other hosts
  bool stop = false;           // some worker was asked to stop; the same on every worker
  std::uint64_t change = 0;    // the highest change of the job that some worker knew of; the same on every worker
  bool save = false;           // the leader asks for a checkpoint of the state after it; the same on every worker
  bool synchronized = true;    // false: the workers' states differ until they meet again (local_sgd)
  compute::Figures figures{};  // what lanes reported by name: means over the samples of those that did

  // Of that name; nothing if no lane of the step has reported it.
  std::optional<double> figure(std::string_view name) const { return figures.mean(name); }

  // What all lanes of the step told. REQUIRES: samples is set.
  void take(const LaneResult& totals) { take(totals, static_cast<double>(samples)); }
  // The same of some of them, which have `told` of its samples between them: the score is scaled to the whole step.
  void take(const LaneResult& totals, double told);
};

}  // namespace muster::strategies
