// What all_reduce and local_sgd have in common: a replica of the whole state in every worker, and lanes of its own.
//
// The replica is two versions in memory of this process, so that a step is all or nothing here too; the model sees the
// parameters through a mapping that cannot be written. Worker w of n computes consecutive lanes, the same in every
// step: shares of the most lanes a step can have, whose sizes differ by at most one. When that many lanes divided by
// the workers is a power of two, each share is an aligned subtree of the tree that lanes are summed by.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/region.h"
#include "muster/strategies/host_layout.h"
#include "muster/strategies/members/fixed_members.h"
#include "muster/strategies/strategy.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::strategies {

constexpr std::chrono::hours kStartTimeout{1};  // ranks may load for very different times; a dead one is seen at once

// Lanes first .. last-1.
struct ReplicaLanes {
  std::size_t first = 0;
  std::size_t last = 0;

  std::size_t size() const { return last - first; }
};

// The share of member `index` of `members` in `lanes` lanes: consecutive, the longer shares first. Pure.
ReplicaLanes share_of(std::size_t lanes, std::size_t index, std::size_t members);

// What every worker holds: its versions, its gradients, and a flat array for the sum.
StateMemory replica_memory(const StateFigures& figures);

class ReplicaStrategy : public Strategy {
 public:
  std::array<std::span<const float>, 2> parameter_versions() override { return {view(0), view(1)}; }
  std::shared_ptr<void> memory() override;
  int committed_version() const override { return static_cast<int>(committed_); }
  CommittedState committed() const override;
  Membership& membership() override { return *members_; }
  std::size_t state_bytes() const override;

  void restore(const CommittedState& state) override;
  void begin_step(const data::StepPlan& plan) override;
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override;
  std::optional<std::size_t> claim() override;
  compute::LaneArea area(std::size_t lane) override { return own(lane).area; }
  void finish(std::size_t lane, const LaneResult& result) override;

 protected:
  explicit ReplicaStrategy(StrategyOptions options);

  // When this worker has a single lane its gradient needs no summing, and is better computed where the sum goes.
  // REQUIRES: flat, as long as the layout; called by constructors only.
  void place_sum(std::span<float> sum);

  const StrategyOptions& options() const { return options_; }
  comm::Group& group() { return options_.group; }
  std::size_t rank() const { return static_cast<std::size_t>(options_.group.rank()); }
  std::size_t workers() const { return static_cast<std::size_t>(options_.group.size()); }
  compute::BlockRange all_blocks() const { return {0, options_.layout.blocks().size()}; }

  const HostVersion& current() const { return versions_[committed_]; }
  HostVersion& next() { return versions_[1 - committed_]; }

  // The step in work. REQUIRES: every lane of this worker is finished.
  const data::StepPlan& finished_step() const;
  // A worker's lanes of the step in work; fewer than its share, or none, when the step has fewer lanes.
  ReplicaLanes lanes_of(std::size_t worker) const;
  const HostLane& own(std::size_t lane) const { return lanes_[lane - share_.first]; }
  std::vector<compute::LaneGradient> own_gradients() const;

  // The commit: from here on the next version is the committed one, or with `flips` false the present one still is; the
  // cursor advances in either case.
  void commit_step(bool flips);
  // Between steps: the next version, which has all of the present one's progress, takes its place.
  void flip() { committed_ = 1 - committed_; }

  // Waits, and adds the time to the step's.
  template <typename Wait>
  void timed(const Wait& wait) {
    const auto start = system_clock().now();
    wait();
    waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
  }
  double waited() const { return waited_; }

 private:
  std::span<const float> view(std::size_t buffer) const;

  // Constant after construction. The group is a copy of the caller's, the same group.
  StrategyOptions options_;
  const std::shared_ptr<Membership> members_;
  const ReplicaLanes share_;
  const comm::SharedRegion region_;  // of this process alone; a region because it can be mapped twice
  std::array<HostVersion, 2> versions_;
  std::array<std::shared_ptr<comm::ReadOnlyMapping>, 2> views_;
  std::vector<HostLane> lanes_;  // of the share
  // What moves.
  std::size_t committed_ = 0;
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  std::size_t next_lane_ = 0;
  std::optional<std::size_t> held_;  // claimed and not finished
  double waited_ = 0;
};

}  // namespace muster::strategies
