// Integer arithmetic on the cursor: where a batch is cut must be the same on every machine. Only the weight of a lane,
// its share of the batch, is a floating-point number.
#include "muster/data/lane_plan.h"

#include <algorithm>

#include "muster/base/check.h"

namespace muster::data {
namespace {

__extension__ using Wide = unsigned __int128;

void check(const BatchShape& shape) {
  MUSTER_CHECK(shape.samples > 0, "an epoch without samples has no steps");
  MUSTER_CHECK(shape.lanes > 0 && shape.lanes <= shape.batch, "a batch has at least one sample a lane");
}

std::uint64_t lanes_of(std::uint64_t samples, const BatchShape& shape) {
  if (samples == shape.batch) return shape.lanes;
  const auto proportional = static_cast<std::uint64_t>((Wide{samples} * shape.lanes + shape.batch - 1) / shape.batch);
  return std::max<std::uint64_t>(1, std::min(proportional, samples / 2));
}

}  // namespace

double StepPlan::weight(std::size_t lane) const {
  return static_cast<double>(lanes[lane].size()) / static_cast<double>(samples());
}

StepPlan plan_step(const Cursor& at, const BatchShape& shape) {
  check(shape);
  MUSTER_CHECK(at.position < shape.samples, "the cursor is beyond its epoch");
  const std::uint64_t samples = std::min(shape.batch, shape.samples - at.position);
  const std::uint64_t lanes = lanes_of(samples, shape);
  StepPlan plan;
  plan.at = at;
  plan.next = {.epoch = at.epoch, .position = at.position + samples, .step = at.step + 1};
  if (plan.next.position == shape.samples) {
    plan.next.epoch += 1;
    plan.next.position = 0;
  }
  std::uint64_t begin = at.position;
  for (std::uint64_t lane = 0; lane < lanes; ++lane) {
    const std::uint64_t size = samples / lanes + (lane < samples % lanes ? 1 : 0);
    plan.lanes.push_back({begin, begin + size});
    begin += size;
  }
  return plan;
}

std::uint64_t steps_per_epoch(const BatchShape& shape) {
  check(shape);
  return shape.samples / shape.batch + (shape.samples % shape.batch != 0 ? 1 : 0);
}

std::uint64_t fewest_lanes(const BatchShape& shape) {
  check(shape);
  const std::uint64_t left = shape.samples % shape.batch;
  return lanes_of(left == 0 ? shape.batch : left, shape);
}

Cursor cursor_at_step(std::uint64_t step, const BatchShape& shape) {
  const std::uint64_t steps = steps_per_epoch(shape);
  return {.epoch = step / steps, .position = step % steps * shape.batch, .step = step};
}

std::uint64_t default_lanes(std::uint64_t batch) {
  constexpr std::uint64_t kMostLanes = 64;
  constexpr std::uint64_t kFewestSamples = 32;
  std::uint64_t lanes = 1;
  while (lanes < kMostLanes && batch / (lanes * 2) >= kFewestSamples)
    lanes *= 2;
  return lanes;
}

}  // namespace muster::data
