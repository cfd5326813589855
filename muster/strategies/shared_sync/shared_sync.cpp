#include "muster/strategies/shared_sync/shared_sync.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena.h"
#include "muster/strategies/members/host_members.h"
#include "muster/strategies/shared_sync/host_layout.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::hours kStartTimeout{1};  // of a fixed group: members/arena_access.cpp says why

// Phases of a step between its lanes and its commit: everybody's part must be there before anybody goes on.
enum Phase : int { kReduced = 1, kMeasured = 2 };

// A step that may have been committed although this worker has not seen it.
struct Uncertain {
  std::uint64_t step = 0;
  data::Cursor next;
  StepOutcome outcome;
};

class SharedSync final : public Strategy {
  using Views = std::array<std::shared_ptr<comm::ReadOnlyMapping>, 2>;

 public:
  explicit SharedSync(StrategyOptions options)
      : options_(std::move(options)),
        members_(options_.supervised, options_.group, arena_options()),
        arena_(members_.arena()) {
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      versions_[buffer] = carve_version(options_, arena_.version(buffer));
      // The model sees its parameters through a mapping that cannot be written.
      views_[buffer] = std::make_shared<comm::ReadOnlyMapping>(arena_.map_version_read_only(buffer));
    }
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      lanes_.push_back(carve_lane(options_, arena_.lane(static_cast<int>(lane))));
    if (!members_.supervised()) take_share();
  }

  std::array<std::span<const float>, 2> parameter_versions() override { return {view(0), view(1)}; }
  std::shared_ptr<void> memory() override {
    return std::make_shared<std::pair<std::shared_ptr<const comm::SharedRegion>, Views>>(arena_.region(), views_);
  }
  int committed_version() const override { return static_cast<int>(arena_.committed().buffer); }

  CommittedState committed() const override {
    const HostVersion& version = versions_[arena_.committed().buffer];
    return {version.state.parameters,
            {version.state.state[0], version.state.state[1]},
            version.state.updates,
            version.buffers,
            cursor_};
  }

  std::size_t state_bytes() const override { return members_.members().leads() ? arena_.region()->bytes().size() : 0; }
  void restore(const CommittedState& state) override;
  void meet() override;
  Members members() const override { return members_.members(); }
  std::optional<StepOutcome> rejoin() override;
  std::chrono::nanoseconds abandoned_for() const override { return members_.abandoned_for(); }
  void begin(comm::Activity activity) override { arena_.board().begin(activity); }
  void write_note(const std::string& text) override { arena_.write_note(text); }
  std::string note() const override { return arena_.note(); }
  void begin_step(const data::StepPlan& plan) override;
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override;
  std::optional<std::size_t> claim() override;
  compute::LaneArea area(std::size_t lane) override { return lanes_[lane].area; }
  void finish(std::size_t lane, const compute::LaneReport& report) override {
    *lanes_[lane].report = report;
    arena_.finish(static_cast<int>(lane));
    held_.reset();
  }
  bool shares_lanes() const override { return true; }
  void wait_lanes(const Deadline& deadline) override {
    timed([&] { arena_.wait_all_done(static_cast<int>(step_->lanes.size()), deadline); });
  }
  int lane_worker(std::size_t lane) const override {
    return static_cast<int>(arena_.lane_state(static_cast<int>(lane)).rank);
  }
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;

 private:
  comm::ArenaOptions arena_options() const {
    comm::ArenaOptions wanted;
    wanted.lanes = static_cast<int>(options_.lanes);
    wanted.version_bytes = version_bytes(options_);
    wanted.lane_bytes = lane_bytes(options_);
    return wanted;
  }
  // Which slice is this worker's among the present members.
  std::optional<StepOutcome> enter_generation();
  void take_share() { slice_ = slice_of(options_.layout, members_.index(), members_.workers()); }
  std::span<const float> view(std::size_t buffer) const {
    const auto offset =
        reinterpret_cast<const std::byte*>(versions_[buffer].state.parameters.data()) - arena_.version(buffer).data();
    return {reinterpret_cast<const float*>(views_[buffer]->bytes().data() + offset), options_.layout.size()};
  }
  // Waits, and adds the time to the step's.
  template <typename Wait>
  void timed(const Wait& wait) {
    const auto start = system_clock().now();
    wait();
    waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
  }
  void merge(std::size_t count, std::span<std::byte> out) const;
  StepOutcome summarize(const compute::Verdict& verdict, std::size_t count) const;

  // Constant after construction. The group is a copy of the caller's, the same group.
  StrategyOptions options_;
  HostMembers members_;
  comm::Arena& arena_;
  std::array<HostVersion, 2> versions_;
  Views views_;
  std::vector<HostLane> lanes_;
  compute::BlockRange slice_;  // of the present members
  // Of this worker.
  std::optional<Uncertain> uncertain_;
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  std::size_t next_lane_ = 0;        // static claims: the next to try
  std::optional<std::size_t> held_;  // claimed and not finished
  double waited_ = 0;
};

void SharedSync::meet() {
  if (!members_.supervised()) return;
  members_.meet();
  enter_generation();
}

std::optional<StepOutcome> SharedSync::rejoin() {
  if (!members_.supervised()) return Strategy::rejoin();
  held_.reset();
  step_.reset();
  members_.rejoin();
  return enter_generation();
}

std::optional<StepOutcome> SharedSync::enter_generation() {
  take_share();
  std::optional<StepOutcome> committed;
  if (uncertain_ && arena_.step() > uncertain_->step) {
    committed = uncertain_->outcome;
    cursor_ = uncertain_->next;
  }
  uncertain_.reset();
  cursor_.step = arena_.step();
  return committed;
}

void SharedSync::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  const Deadline deadline = Deadline::after(kStartTimeout);
  const bool fixed = !members_.supervised();
  MUSTER_CHECK(fixed || !members_.founds() || arena_.generation() == 0,
               "under a supervisor restore() comes before meet()");
  if (!fixed && members_.founds()) arena_.set_first_step(state.cursor.step);
  if (fixed) options_.group.barrier(deadline);
  // Both versions: what no step ever changes (frozen tensors) must be right in either.
  for (HostVersion& version : versions_) {
    if (!members_.founds()) break;
    std::ranges::copy(state.parameters, version.state.parameters.begin());
    for (std::size_t slot = 0; slot < version.state.state.size(); ++slot)
      std::ranges::copy(state.state[slot], version.state.state[slot].begin());
    std::ranges::copy(state.updates, version.state.updates.begin());
    std::ranges::copy(state.buffers, version.buffers.begin());
  }
  if (fixed) options_.group.barrier(deadline);
  cursor_ = state.cursor;
  step_.reset();
}

void SharedSync::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at.step == cursor_.step, "a plan for another step");
  MUSTER_CHECK(plan.lanes.size() <= options_.lanes, "more lanes than there are areas");
  // A lane that was begun and given up is anybody's again.
  if (held_) arena_.release(static_cast<int>(*held_));
  held_.reset();
  members_.enter_step(static_cast<std::int64_t>(plan.at.step));
  cursor_ = plan.at;
  step_ = plan;
  next_lane_ = members_.index();
  waited_ = 0;
}

std::vector<std::size_t> SharedSync::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  for (std::size_t lane = members_.index(); lane < plan.lanes.size(); lane += members_.workers())
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> SharedSync::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  const std::size_t count = step_->lanes.size();
  // This worker's own lanes first: they were read ahead. A dynamic step then takes what others have not begun.
  for (; !held_ && next_lane_ < count; next_lane_ += members_.workers()) {
    if (arena_.claim(static_cast<int>(next_lane_))) held_ = next_lane_;
  }
  // Under a supervisor a lane of a worker that was lost is anybody's as well. From the back: its owner comes to the
  // last lanes last, so what it has read ahead is not read in vain, and a worker that is helped often is helped with
  // the same lanes. Where data is local that is what keeps a helper from reading everybody's shards.
  if (!held_ && (options_.claims == Claims::kDynamic || arena_.generation() > HostMembers::kFirstGeneration)) {
    for (std::size_t lane = count; !held_ && lane-- > 0;) {
      if (arena_.claim(static_cast<int>(lane))) held_ = lane;
    }
  }
  if (held_) arena_.start(static_cast<int>(*held_));
  return held_;
}

StepOutcome SharedSync::commit(const compute::UpdateRule& rule, Deadline deadline) {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
  MUSTER_CHECK(!held_, "commit() with a lane that is not finished");
  const std::size_t count = step_->lanes.size();
  timed([&] { arena_.wait_all_done(static_cast<int>(count), deadline); });

  const std::uint64_t buffer = arena_.committed().buffer;
  timed([&] { arena_.next_version(deadline); });
  const compute::Version& current = versions_[buffer].state;
  HostVersion& next = versions_[1 - buffer];
  std::vector<compute::LaneGradient> gradients;
  for (std::size_t lane = 0; lane < count; ++lane)
    gradients.push_back({lanes_[lane].area.gradient.data(), lanes_[lane].area.present.data()});

  const bool at_once = compute::updates_at_once(rule);
  if (at_once)
    compute::reduce_and_update_slice(options_.layout, gradients, rule, slice_, current, next.state, next.records);
  else
    compute::reduce_slice(options_.layout, gradients, slice_, next.state, next.records);
  const auto meet = [&](Phase phase) {
    arena_.arrive(phase);
    timed([&] { arena_.wait_arrived(phase, deadline); });
  };
  meet(kReduced);
  const compute::Verdict verdict = compute::judge_step(next.records, rule.clip_norm);
  if (verdict.apply) {
    if (rule.optimizer->needs_norms()) {
      compute::measure_slice(options_.layout, gradients, rule, verdict, slice_, current, next.state, next.norms);
      meet(kMeasured);
    }
    if (!at_once)
      compute::update_slice(options_.layout, gradients, rule, verdict, slice_, current, next.state, next.norms);
    if (members_.index() == 0) merge(count, next.buffers);
  }
  // Before the commit: the lanes belong to the next step after it.
  StepOutcome outcome = summarize(verdict, count);
  uncertain_ = Uncertain{arena_.step(), step_->next, outcome};
  timed([&] { arena_.commit(verdict.apply ? comm::Outcome::kFlip : comm::Outcome::kKeep, deadline); });
  uncertain_.reset();
  outcome.waited = waited_;
  cursor_ = step_->next;
  step_.reset();
  return outcome;
}

void SharedSync::merge(std::size_t count, std::span<std::byte> out) const {
  std::vector<std::span<const std::byte>> buffers;
  std::vector<double> weights;
  for (std::size_t lane = 0; lane < count; ++lane) {
    buffers.push_back(lanes_[lane].area.buffers);
    weights.push_back(step_->weight(lane));
  }
  compute::merge_buffers(options_.buffers, buffers, weights, out);
}

StepOutcome SharedSync::summarize(const compute::Verdict& verdict, std::size_t count) const {
  StepOutcome outcome;
  outcome.applied = verdict.apply;
  outcome.gradient_norm = verdict.gradient_norm;
  outcome.samples = step_->samples();
  compute::LaneReport totals;
  for (std::size_t lane = 0; lane < count; ++lane)
    totals += *lanes_[lane].report;
  outcome.take(totals);
  return outcome;
}

}  // namespace

std::unique_ptr<Strategy> make_shared_sync(StrategyOptions options) {
  return std::make_unique<SharedSync>(std::move(options));
}

}  // namespace muster::strategies
