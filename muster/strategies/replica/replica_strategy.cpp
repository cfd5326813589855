// Two versions and the lanes in memory of this process, cut as in the arena. Subclasses say how lanes become the next
// version; claims and the flip are here.
#include "muster/strategies/replica/replica_strategy.h"

#include <algorithm>

#include "muster/base/check.h"
#include "muster/base/failpoint.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kPage = 4096;  // a version that is mapped again begins on a page

std::size_t version_stride(const StrategyOptions& options) {
  return (version_bytes(options) + kPage - 1) / kPage * kPage;
}

template <typename T>
comm::View bytes_of(std::span<T> values) {
  return {comm::ElementType::kUint8, values.data(), values.size_bytes()};
}

}  // namespace

ReplicaLanes share_of(std::size_t lanes, std::size_t index, std::size_t members) {
  const std::size_t size = lanes / members;
  const std::size_t longer = lanes % members;
  const std::size_t first = index * size + std::min(index, longer);
  return {first, first + size + (index < longer ? 1 : 0)};
}

StateMemory replica_memory(const StateFigures& figures) {
  // A worker with one lane has its gradient where the sum of all workers will be.
  const bool one_lane_each = figures.lanes <= figures.workers;
  return {2 * figures.workers * figures.version_bytes(),
          figures.lanes * figures.buffer_bytes + (one_lane_each ? 0 : figures.lanes * figures.parameter_bytes),
          figures.workers * figures.parameter_bytes};
}

ReplicaStrategy::ReplicaStrategy(StrategyOptions options)
    : options_(std::move(options)),
      members_(options_.met ? options_.met : std::make_shared<FixedMembers>(options_.group, options_.note)),
      share_(share_of(options_.lanes, rank(), workers())),
      region_(comm::SharedRegion::create(2 * version_stride(options_) + share_.size() * lane_bytes(options_))) {
  const std::size_t stride = version_stride(options_);
  for (std::size_t buffer = 0; buffer < 2; ++buffer) {
    versions_[buffer] = carve_version(options_, region_.bytes().subspan(buffer * stride, stride));
    views_[buffer] = std::make_shared<comm::ReadOnlyMapping>(region_.map_read_only(buffer * stride, stride));
  }
  for (std::size_t lane = 0; lane < share_.size(); ++lane) {
    const std::size_t bytes = lane_bytes(options_);
    lanes_.push_back(carve_lane(options_, region_.bytes().subspan(2 * stride + lane * bytes, bytes)));
  }
}

void ReplicaStrategy::place_sum(std::span<float> sum) {
  if (lanes_.size() == 1) lanes_[0].area.gradient = sum;
}

std::span<const float> ReplicaStrategy::view(std::size_t buffer) const {
  const auto offset = reinterpret_cast<const std::byte*>(versions_[buffer].state.parameters.data()) -
                      (region_.bytes().data() + buffer * version_stride(options_));
  return {reinterpret_cast<const float*>(views_[buffer]->bytes().data() + offset), options_.layout.size()};
}

std::shared_ptr<void> ReplicaStrategy::memory() {
  return std::make_shared<std::array<std::shared_ptr<comm::ReadOnlyMapping>, 2>>(views_);
}

CommittedState ReplicaStrategy::committed() const {
  const HostVersion& version = current();
  return {version.state.parameters,
          {version.state.state[0], version.state.state[1]},
          version.state.updates,
          version.buffers,
          cursor_};
}

std::size_t ReplicaStrategy::state_bytes() const {
  // A lane whose gradient is elsewhere (place_sum) leaves its part of the region untouched.
  std::size_t untouched = 0;
  for (const HostLane& lane : lanes_) {
    const auto* const place = reinterpret_cast<const std::byte*>(lane.area.gradient.data());
    const std::span<std::byte> region = region_.bytes();
    if (place < region.data() || place >= region.data() + region.size()) untouched += lane.area.gradient.size_bytes();
  }
  return region_.bytes().size() - untouched;
}

void ReplicaStrategy::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  const Deadline deadline = Deadline::after(kStartTimeout);
  cursor_ = state.cursor;
  // Both versions: what no step ever changes (frozen tensors) must be right in either.
  for (HostVersion& version : versions_) {
    const bool first = &version == &versions_.front();
    const auto take = [&]<typename T>(std::span<const T> given, std::span<T> received, std::span<T> target) {
      std::ranges::copy(first ? given : std::span<const T>(received), target.begin());
      if (first) group().broadcast(bytes_of(target), 0, deadline);
    };
    const HostVersion& received = versions_.front();
    take(state.parameters, received.state.parameters, version.state.parameters);
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(options_.slots); ++slot)
      take(state.state[slot], received.state.state[slot], version.state.state[slot]);
    take(state.updates, received.state.updates, version.state.updates);
    take(state.buffers, received.buffers, version.buffers);
  }
  group().broadcast(bytes_of(std::span(&cursor_, 1)), 0, deadline);
  step_.reset();
}

void ReplicaStrategy::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at == cursor_, "a plan for another step");
  MUSTER_CHECK(plan.lanes.size() <= options_.lanes, "more lanes than there are areas");
  members_->enter_step(static_cast<std::int64_t>(plan.at.step));
  held_.reset();
  step_ = plan;
  next_lane_ = share_.first;
  waited_ = 0;
}

std::vector<std::size_t> ReplicaStrategy::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  for (std::size_t lane = share_.first; lane < std::min(share_.last, plan.lanes.size()); ++lane)
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> ReplicaStrategy::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  if (!held_ && next_lane_ < lanes_of(rank()).last) held_ = next_lane_++;
  return held_;
}

void ReplicaStrategy::finish(std::size_t lane, const LaneResult& result) {
  *own(lane).result = result;
  held_.reset();
}

const data::StepPlan& ReplicaStrategy::finished_step() const {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
  MUSTER_CHECK(!held_ && next_lane_ >= lanes_of(rank()).last, "commit() with a lane that is not finished");
  return *step_;
}

ReplicaLanes ReplicaStrategy::lanes_of(std::size_t worker) const {
  const ReplicaLanes share = share_of(options_.lanes, worker, workers());
  const std::size_t count = step_->lanes.size();
  return {std::min(share.first, count), std::min(share.last, count)};
}

std::vector<compute::LaneGradient> ReplicaStrategy::own_gradients() const {
  std::vector<compute::LaneGradient> gradients;
  const ReplicaLanes lanes = lanes_of(rank());
  for (std::size_t lane = lanes.first; lane < lanes.last; ++lane)
    gradients.push_back({own(lane).area.gradient.data(), own(lane).area.present.data()});
  return gradients;
}

void ReplicaStrategy::commit_step(bool flips) {
  MUSTER_FAILPOINT("replica.commit.before");
  if (flips) flip();
  cursor_ = step_->next;
  step_.reset();
}

}  // namespace muster::strategies
