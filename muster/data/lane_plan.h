// Which samples each lane of a step computes. Pure functions of the cursor and the batch's shape: no worker,
// and no number of workers, appears here, which is why the result of a job does not depend on them.
//
// Step s takes the next `batch` positions of the epoch's permutation; they are cut into lanes of consecutive
// positions whose sizes differ by at most one, longer lanes first. The last batch of an epoch may be short.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::data {

// Where a job stands. Part of the committed state: every sample before it was used exactly once.
struct Cursor {
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // samples of this epoch already committed; below the samples of an epoch
  std::uint64_t step = 0;      // committed steps of the whole job

  auto operator<=>(const Cursor&) const = default;
};

// Positions begin .. end-1 of the epoch's permutation.
struct LaneRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  bool operator==(const LaneRange&) const = default;
};

struct StepPlan {
  Cursor at;
  Cursor next;  // where the job stands once this step is committed
  std::vector<LaneRange> lanes = {};

  std::uint64_t samples() const { return lanes.empty() ? 0 : lanes.back().end - lanes.front().begin; }
  // The lane's part of the step's mean gradient: its samples over all samples. REQUIRES: lane < lanes.size().
  double weight(std::size_t lane) const;
};

// REQUIRES (callers validate with the user's words): samples > 0, 1 <= lanes <= batch.
struct BatchShape {
  std::uint64_t samples = 0;  // in an epoch
  std::uint64_t batch = 0;    // in a step, over all lanes
  std::uint64_t lanes = 1;
};

// The step at the cursor. A full batch has exactly shape.lanes lanes. A short one of n samples has
// max(1, min(ceil(n * lanes / batch), n / 2)): lanes about as long as usual, and none with a single sample
// (which BatchNorm refuses) unless the batch is a single sample. The shape may change from step to step of an
// epoch, as long as `samples` stays. REQUIRES: at.position < shape.samples.
StepPlan plan_step(const Cursor& at, const BatchShape& shape);

std::uint64_t steps_per_epoch(const BatchShape& shape);

// Lanes of the last step of an epoch, which may have the fewest.
std::uint64_t fewest_lanes(const BatchShape& shape);

// The cursor after `step` committed steps of the same shape.
Cursor cursor_at_step(std::uint64_t step, const BatchShape& shape);

// Lanes of a job that does not say: the largest power of two of 1 .. 64 that leaves at least 32 samples a lane.
std::uint64_t default_lanes(std::uint64_t batch);

}  // namespace muster::data
