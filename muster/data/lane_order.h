// LaneOrder: which samples each lane of each step computes, with data placed anywhere or kept local. Pure functions of
// the job: no worker, and no number of workers, appears here, so the bits of a job do not depend on them either way.
//
// Anywhere: the epoch has one permutation of all samples, and a step takes the next batch of it (lane_plan.h).
// Local: every lane has shards of its own, and an order of its own over their samples. With T = ceil(samples / batch)
// steps an epoch, lane l with n samples takes, in step s, the places
//   floor((s * n + phase) / T)  up to, not including,  floor(((s + 1) * n + phase) / T),     phase = floor(l * T /
//   lanes),
// of its order: every sample once an epoch also when lanes hold different numbers, always floor(n/T) or one more a
// step, no short last step; the phases keep the lanes from growing in the same step. Lanes are weighted by their
// samples, as always. Whoever computes a lane reads its shards and no others, so a group of workers that keeps to its
// lanes keeps to its shards; when it must compute another's lane (a worker was lost), it reads that lane's shards, and
// the bits stay.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/lane_plan.h"
#include "muster/data/partition/placement.h"
#include "muster/data/partition/shards.h"

namespace muster::data {

// Immutable. Thread safety: any number of threads at once.
class LaneOrder {
 public:
  virtual ~LaneOrder() = default;

  // The step at the cursor. Its ranges count the epoch's samples in the order of steps and lanes; what they stand for
  // is ids(). REQUIRES: a cursor of this order.
  virtual StepPlan plan(const Cursor& at) const = 0;
  // The samples of a lane. REQUIRES: a plan of this order, lane < plan.lanes.size().
  virtual std::vector<std::uint64_t> ids(const StepPlan& plan, std::size_t lane) const = 0;
  virtual std::uint64_t steps_per_epoch() const = 0;
  // After `step` committed steps.
  virtual Cursor cursor_at_step(std::uint64_t step) const = 0;
};

// Data anywhere. REQUIRES: as plan_step.
class GlobalOrder final : public LaneOrder {
 public:
  GlobalOrder(const BatchShape& shape, std::uint64_t seed) : shape_(shape), seed_(seed) {}

  StepPlan plan(const Cursor& at) const override { return plan_step(at, shape_); }
  std::vector<std::uint64_t> ids(const StepPlan& plan, std::size_t lane) const override;
  std::uint64_t steps_per_epoch() const override { return data::steps_per_epoch(shape_); }
  Cursor cursor_at_step(std::uint64_t step) const override { return data::cursor_at_step(step, shape_); }

 private:
  BatchShape shape_;
  std::uint64_t seed_;
};

// Data local to lanes. The batch may not change during an epoch.
class LocalOrder final : public LaneOrder {
 public:
  // Lane lane_of.member_of[shard] draws from the shard.
  // Throws Error{kInvalidInput}, naming the lane, if a lane would hold fewer than two samples in some step (one, if the
  // batch is below two a lane). REQUIRES: shards.samples() == shape.samples; every shard is placed on a lane.
  LocalOrder(Shards shards, const Placement& lane_of, const BatchShape& shape, std::uint64_t seed);

  StepPlan plan(const Cursor& at) const override;
  std::vector<std::uint64_t> ids(const StepPlan& plan, std::size_t lane) const override;
  std::uint64_t steps_per_epoch() const override { return steps_; }
  Cursor cursor_at_step(std::uint64_t step) const override;

  std::uint64_t samples_of(std::size_t lane) const { return lanes_[lane].ends.empty() ? 0 : lanes_[lane].ends.back(); }

 private:
  struct Lane {
    std::vector<std::uint64_t> shards;
    std::vector<std::uint64_t> ends;  // of each shard, counted in the lane's samples
  };

  // Samples that lane l has given out before step s of an epoch.
  std::uint64_t given(std::size_t lane, std::uint64_t step) const;
  std::uint64_t position(std::uint64_t step) const;
  std::uint64_t sample(const Lane& lane, std::uint64_t place) const;

  Shards shards_;
  BatchShape shape_;
  std::uint64_t seed_;
  std::uint64_t steps_;  // of an epoch
  std::vector<Lane> lanes_;
};

// The lanes of one of `groups` groups of workers: consecutive, sizes that differ by at most one, longer first, so that
// a group of a power of two owns an aligned part of the tree that sums lanes. REQUIRES: group < groups.
LaneRange lanes_of_group(std::uint64_t lanes, std::uint64_t group, std::uint64_t groups);

}  // namespace muster::data
