// The arithmetic of the header, in integers. ids() of one lane needs no other lane: a worker computes what it was given
// and no more.
#include "muster/data/lane_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/data/permutation.h"

namespace muster::data {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

std::vector<std::uint64_t> GlobalOrder::ids(const StepPlan& plan, std::size_t lane) const {
  const Permutation order(shape_.samples, seed_, plan.at.epoch);
  const LaneRange range = plan.lanes[lane];
  std::vector<std::uint64_t> ids;
  ids.reserve(range.size());
  for (std::uint64_t position = range.begin; position < range.end; ++position)
    ids.push_back(order(position));
  return ids;
}

LocalOrder::LocalOrder(Shards shards, const Placement& lane_of, const BatchShape& shape, std::uint64_t seed)
    : shards_(std::move(shards)), shape_(shape), seed_(seed), steps_(data::steps_per_epoch(shape)) {
  MUSTER_CHECK(shards_.samples() == shape.samples, "shards of another data set");
  MUSTER_CHECK(shards_.count() == lane_of.member_of.size(), "a placement of other shards");
  lanes_.resize(shape.lanes);
  for (std::uint64_t shard = 0; shard < shards_.count(); ++shard) {
    MUSTER_CHECK(lane_of.member_of[shard] < lanes_.size(), "a shard on a lane that is not there");
    Lane& lane = lanes_[lane_of.member_of[shard]];
    const std::uint64_t before = lane.ends.empty() ? 0 : lane.ends.back();
    lane.shards.push_back(shard);
    lane.ends.push_back(before + shards_.size(shard));
  }
  const std::uint64_t least = shape.batch / shape.lanes >= 2 ? 2 : 1;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (samples_of(lane) / steps_ >= least) continue;
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("lane {} has {} samples of its own for {} steps an epoch; every step needs at least {}",
                            lane, samples_of(lane), steps_, least),
                {}, "Choose a larger batch, fewer lanes, or a partition that is more even.");
  }
}

std::uint64_t LocalOrder::given(std::size_t lane, std::uint64_t step) const {
  const Wide phase = Wide{lane} * steps_ / lanes_.size();
  return static_cast<std::uint64_t>((Wide{step} * samples_of(lane) + phase) / steps_);
}

std::uint64_t LocalOrder::position(std::uint64_t step) const {
  std::uint64_t position = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
    position += given(lane, step);
  return position;
}

Cursor LocalOrder::cursor_at_step(std::uint64_t step) const {
  return {.epoch = step / steps_, .position = position(step % steps_), .step = step};
}

StepPlan LocalOrder::plan(const Cursor& at) const {
  MUSTER_CHECK(at == cursor_at_step(at.step), "a cursor of another order");
  StepPlan plan;
  plan.at = at;
  plan.next = cursor_at_step(at.step + 1);
  const std::uint64_t step = at.step % steps_;
  std::uint64_t begin = at.position;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const std::uint64_t size = given(lane, step + 1) - given(lane, step);
    plan.lanes.push_back({begin, begin + size});
    begin += size;
  }
  return plan;
}

std::uint64_t LocalOrder::sample(const Lane& lane, std::uint64_t place) const {
  const auto end = std::upper_bound(lane.ends.begin(), lane.ends.end(), place);
  const auto index = static_cast<std::size_t>(end - lane.ends.begin());
  const std::uint64_t begin = index == 0 ? 0 : lane.ends[index - 1];
  return shards_.sample(lane.shards[index], place - begin);
}

std::vector<std::uint64_t> LocalOrder::ids(const StepPlan& plan, std::size_t lane) const {
  const Permutation order(
      samples_of(lane),
      StreamKey{.seed = seed_, .purpose = Purpose::kPermutation, .epoch = plan.at.epoch, .lane = lane + 1});
  const std::uint64_t step = plan.at.step % steps_;
  std::vector<std::uint64_t> ids;
  ids.reserve(plan.lanes[lane].size());
  for (std::uint64_t place = given(lane, step); place < given(lane, step + 1); ++place)
    ids.push_back(sample(lanes_[lane], order(place)));
  return ids;
}

LaneRange lanes_of_group(std::uint64_t lanes, std::uint64_t group, std::uint64_t groups) {
  MUSTER_CHECK(group < groups, "a group beyond the last");
  const auto begin = [&](std::uint64_t g) { return lanes / groups * g + std::min(g, lanes % groups); };
  return {begin(group), begin(group + 1)};
}

}  // namespace muster::data
