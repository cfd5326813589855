// A step is claim, compute, reduce, judge, update and flip, with a wait for everybody between the phases. Whatever a
// lost worker left half done is done again from version k, which nobody has written to. Where there are several hosts
// the sums of the lanes are made with the others (host_exchange.h); all that follows each host does for itself.
#include "muster/strategies/shared_sync/shared_sync.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/arena.h"
#include "muster/strategies/host_layout.h"
#include "muster/strategies/members/host_members.h"
#include "muster/strategies/members/roster_access.h"
#include "muster/strategies/shared_sync/host_exchange.h"
#include "muster/strategies/shared_sync/host_state.h"
#include "muster/strategies/shared_sync/link_time.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::hours kStartTimeout{1};  // of a fixed group: members/roster_access.cpp says why

// Phases of a step between its lanes and its commit: everybody's part must be there before anybody goes on.
enum Phase : int { kHeads = 1, kReduced = 2, kMeasured = 3, kUpdated = 4 };

class SharedSyncStrategy final : public Strategy {
  using Views = std::array<std::shared_ptr<comm::ReadOnlyMapping>, 2>;

 public:
  SharedSyncStrategy(const SharedSync& chosen, StrategyOptions options)
      : options_(std::move(options)),
        exchange_early_(chosen.exchange_early),
        shared_(open_shared<comm::Arena>(options_.supervised, options_.group, arena_options())),
        members_(options_.supervised, options_.group, shared_) {
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      versions_[buffer] = carve_version(options_, arena_.version(buffer));
      // The model sees its parameters through a mapping that cannot be written.
      views_[buffer] = std::make_shared<comm::ReadOnlyMapping>(arena_.map_version_read_only(buffer));
    }
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      lanes_.push_back(carve_lane(options_, arena_.lane(static_cast<int>(lane))));
    if (!members_.replaces()) take_share();
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
  bool restore_in_place(const data::Cursor& cursor, const FillState& fill) override;
  Membership& membership() override { return members_; }
  std::optional<StepOutcome> enter_generation() override;
  std::optional<StepOutcome> settle_step() override;
  void begin_step(const data::StepPlan& plan) override;
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override;
  std::optional<std::size_t> claim() override;
  compute::LaneArea area(std::size_t lane) override { return lanes_[lane].area; }
  std::span<std::byte> passage(std::size_t lane) override { return lanes_[lane].passage; }
  void finish(std::size_t lane, const LaneResult& result) override {
    *lanes_[lane].result = result;
    arena_.finish(static_cast<int>(lane));
    std::erase(held_, lane);
  }
  bool uses_ready_gradients(std::size_t lane) const override {
    return exchange_ && step_ && members_.members().host_count() == 1 && lane + 1 == own_.last &&
           exchange_->can_begin_early(step_->lanes.size());
  }
  void gradient_ready(std::size_t lane, std::size_t tensor) override;
  void wait_lanes(const Deadline& deadline) override {
    timed([&] { wait_own_lanes(deadline); });
  }
  bool shows_lane(std::size_t lane) const override { return lane >= own_.first && lane < own_.last; }
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
  void take_share() {
    const Members& members = members_.members();
    exchange_.reset();
    if (members.hosts() > 1) exchange_.emplace(options_.layout, members, exchange_early_, options_.records.get());
    slice_ = exchange_ ? exchange_->slice() : slice_of(options_.layout, members.host_index(), members.host_count());
  }
  // Which lanes of a step are this worker's to begin with.
  LaneShare share() const {
    const Members& members = members_.members();
    return options_.share ? options_.share(members) : LaneShare{members.host_index(), members.host_count()};
  }
  // Of this host.
  void wait_own_lanes(const Deadline& deadline) {
    arena_.wait_all_done(static_cast<int>(own_.first), static_cast<int>(own_.last), deadline);
  }
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
  void meet(Phase phase, const Deadline& deadline) {
    arena_.arrive(phase);
    timed([&] { arena_.wait_arrived(phase, deadline); });
  }
  // Sums the lanes of this worker's slice and examines the sum; with `at_once` updates it, too. Gives the sum.
  compute::LaneGradient reduce(const compute::UpdateRule& rule, bool at_once, const compute::Version& current,
                               HostVersion& next, std::vector<std::uint8_t>& marks);
  // The same together with the other hosts.
  compute::LaneGradient reduce_with_others(const compute::UpdateRule& rule, bool at_once,
                                           const compute::Version& current, HostVersion& next,
                                           std::vector<std::uint8_t>& marks, const Deadline& deadline);
  std::vector<compute::LaneGradient> gradients() const;
  void merge(std::size_t count, std::span<std::byte> out) const;
  StepOutcome summarize(const compute::Verdict& verdict, std::size_t count) const;

  // Constant after construction. The group is a copy of the caller's, the same group.
  StrategyOptions options_;
  const bool exchange_early_;
  const std::shared_ptr<comm::Arena> shared_;
  HostMembers members_;
  comm::Arena& arena_ = *shared_;
  std::array<HostVersion, 2> versions_;
  Views views_;
  std::vector<HostLane> lanes_;
  // Of the present members.
  compute::BlockRange slice_;
  std::optional<HostExchange> exchange_;  // where there are several hosts
  // Of this worker.
  std::optional<LastStep> uncertain_;  // a step that may have been committed although this worker has not seen it
  std::optional<LastStep> last_;       // that it has seen committed
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  control::LaneRange own_;         // of the step: this host's lanes
  std::size_t next_lane_ = 0;      // static claims: the next to try
  std::vector<std::size_t> held_;  // claimed and not finished
  std::size_t lane_step_ = 1;      // from one lane of this worker to its next
  double waited_ = 0;
  double exchanged_ = 0;
  std::optional<Clock::Instant> exchange_began_;  // early
  bool not_early_ = false;                        // it cannot be in this step
};

std::optional<StepOutcome> SharedSyncStrategy::enter_generation() {
  if (!members_.replaces()) return {};
  held_.clear();
  step_.reset();
  take_share();
  if (!members_.members().job.hosts.empty()) {
    const bool committed = uncertain_ && arena_.step() > uncertain_->step;
    HostState(options_, arena_, versions_)
        .bring_up_to_date(members_.members(), committed ? uncertain_ : last_, uncertain_, options_.step_timeout);
  }
  const std::optional<StepOutcome> committed = settle_step();
  cursor_.step = arena_.step();
  return committed;
}

std::optional<StepOutcome> SharedSyncStrategy::settle_step() {
  const std::optional<LastStep> step = std::exchange(uncertain_, std::nullopt);
  if (!step || arena_.committed().step <= step->step) return {};
  cursor_ = step->next;
  last_ = step;
  return step->outcome;
}

void SharedSyncStrategy::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  restore_in_place(state.cursor, [&](const StateToFill& to) {
    std::ranges::copy(state.parameters, to.version.parameters.begin());
    for (std::size_t slot = 0; slot < to.version.state.size(); ++slot)
      std::ranges::copy(state.state[slot], to.version.state[slot].begin());
    std::ranges::copy(state.updates, to.version.updates.begin());
    std::ranges::copy(state.buffers, to.buffers.begin());
  });
}

bool SharedSyncStrategy::restore_in_place(const data::Cursor& cursor, const FillState& fill) {
  const Deadline deadline = Deadline::after(kStartTimeout);
  const bool fixed = !members_.replaces();
  MUSTER_CHECK(fixed || !members_.founds() || arena_.generation() == 0,
               "under a supervisor restore() comes before meet()");
  if (!fixed && members_.founds()) arena_.set_first_step(cursor.step);
  // On another host than the job's first one what this worker gives is nobody's state.
  if (!fixed && members_.founds() && !options_.supervised->founds_job()) arena_.mark_fresh();
  if (fixed) options_.group.barrier(deadline);
  // Both versions: what no step ever changes (frozen tensors) must be right in either.
  if (members_.founds()) {
    const auto& [first, second] = versions_;
    fill({first.state, first.buffers});
    std::ranges::copy(first.state.parameters, second.state.parameters.begin());
    for (std::size_t slot = 0; slot < first.state.state.size(); ++slot)
      std::ranges::copy(first.state.state[slot], second.state.state[slot].begin());
    std::ranges::copy(first.state.updates, second.state.updates.begin());
    std::ranges::copy(first.buffers, second.buffers.begin());
  }
  if (fixed) options_.group.barrier(deadline);
  cursor_ = cursor;
  step_.reset();
  return true;
}

void SharedSyncStrategy::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at.step == cursor_.step, "a plan for another step");
  if (exchange_ && exchange_->under_way())
    throw Error(ErrorKind::kInvalidInput, "a step was left whose gradients are on their way to other hosts", {},
                "Do not leave the loop inside a step, or set parallel.exchange_early = false.");
  MUSTER_CHECK(plan.lanes.size() <= options_.lanes, "more lanes than there are areas");
  // Lanes that were begun and given up are anybody's again.
  for (const std::size_t lane : held_)
    arena_.release(static_cast<int>(lane));
  held_.clear();
  members_.enter_step(static_cast<std::int64_t>(plan.at.step));
  cursor_ = plan.at;
  step_ = plan;
  own_ = members_.members().host_lanes(plan.lanes.size());
  const LaneShare mine = share();
  next_lane_ = mine.claims ? own_.first + mine.index : own_.last;
  lane_step_ = mine.count;
  waited_ = 0;
  exchanged_ = 0;
  exchange_began_.reset();
  not_early_ = false;
}

std::vector<std::size_t> SharedSyncStrategy::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  const Members& members = members_.members();
  const control::LaneRange own = members.host_lanes(plan.lanes.size());
  const LaneShare mine = share();
  if (!mine.loads) return lanes;
  for (std::size_t lane = own.first + mine.index; lane < own.last; lane += mine.count)
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> SharedSyncStrategy::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  // This worker's own lanes first: they were read ahead. A dynamic step then takes what others have not begun.
  std::optional<std::size_t> claimed;
  for (; !claimed && next_lane_ < own_.last; next_lane_ += lane_step_) {
    if (arena_.claim(static_cast<int>(next_lane_))) claimed = next_lane_;
  }
  // Under a supervisor a lane of a worker that was lost is anybody's as well. From the back: its owner comes to the
  // last lanes last, so what it has read ahead is not read in vain, and a worker that is helped often is helped with
  // the same lanes. Where data is local that is what keeps a helper from reading everybody's shards.
  if (!claimed && !options_.share && (options_.claims == Claims::kDynamic || arena_.generation() > kFirstGeneration)) {
    for (std::size_t lane = own_.last; !claimed && lane-- > own_.first;) {
      if (arena_.claim(static_cast<int>(lane))) claimed = lane;
    }
  }
  if (claimed) {
    arena_.start(static_cast<int>(*claimed));
    held_.push_back(*claimed);
  }
  return claimed;
}

// Called inside backward, where nothing may be thrown: an error is the group's or the arena's, and commit() meets it.
void SharedSyncStrategy::gradient_ready(std::size_t lane, std::size_t tensor) {
  if (not_early_) return;
  try {
    if (!exchange_->under_way()) {
      for (std::size_t other = own_.first; other < lane; ++other)
        not_early_ |= arena_.lane_state(static_cast<int>(other)).state != comm::LaneState::kDone;
      if (not_early_) return;
      arena_.next_version(Deadline::after({}));  // a reader may hold it
      exchange_began_ = system_clock().now();
      exchange_->begin_early(std::span(lanes_).first(step_->lanes.size()),
                             versions_[1 - arena_.committed().buffer].state.parameters, lane);
    }
    exchange_->gradient_ready(tensor);
  } catch (const Error&) {
    not_early_ = true;
  }
}

StepOutcome SharedSyncStrategy::commit(const compute::UpdateRule& rule, Deadline deadline) {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
  MUSTER_CHECK(held_.empty(), "commit() with a lane that is not finished");
  const std::size_t count = step_->lanes.size();
  timed([&] { wait_own_lanes(deadline); });
  // From here on other hosts are waited for, and links: at most all lanes go each way.
  if (exchange_) deadline = Deadline::after(options_.step_timeout + time_on_link(2 * count * lane_bytes(options_)));

  const std::uint64_t buffer = arena_.committed().buffer;
  timed([&] { arena_.next_version(deadline); });
  const compute::Version& current = versions_[buffer].state;
  HostVersion& next = versions_[1 - buffer];
  const bool at_once = compute::updates_at_once(rule);
  std::vector<std::uint8_t> marks;
  const compute::LaneGradient sum = exchange_ ? reduce_with_others(rule, at_once, current, next, marks, deadline)
                                              : reduce(rule, at_once, current, next, marks);
  meet(kReduced, deadline);
  const compute::Verdict verdict = compute::judge_step(next.records, rule.clip_norm);
  if (verdict.apply) {
    if (rule.needs_norms()) {
      compute::measure_slice(options_.layout, sum, rule, verdict, slice_, current, next.norms);
      meet(kMeasured, deadline);
    }
    if (!at_once) compute::update_slice(options_.layout, sum, rule, verdict, slice_, current, next.state, next.norms);
    const bool first = members_.members().host_index() == 0;
    if (first) merge(count, next.buffers);
    if (rule.after != nullptr) {
      meet(kUpdated, deadline);
      if (first) (*rule.after)(next.state.parameters, next.buffers);
    }
  }
  // Before the commit: the lanes belong to the next step after it.
  StepOutcome outcome = summarize(verdict, count);
  uncertain_ = LastStep{arena_.step(), step_->next, outcome};
  timed([&] { arena_.commit(verdict.apply ? comm::Outcome::kFlip : comm::Outcome::kKeep, deadline); });
  last_ = std::exchange(uncertain_, std::nullopt);
  outcome.waited = waited_;
  outcome.exchanged = exchanged_;
  cursor_ = step_->next;
  step_.reset();
  return outcome;
}

std::vector<compute::LaneGradient> SharedSyncStrategy::gradients() const {
  std::vector<compute::LaneGradient> all;
  for (const HostLane& lane : std::span(lanes_).first(step_->lanes.size()))
    all.push_back({lane.area.gradient.data(), lane.area.present.data()});
  return all;
}

compute::LaneGradient SharedSyncStrategy::reduce(const compute::UpdateRule& rule, bool at_once,
                                                 const compute::Version& current, HostVersion& next,
                                                 std::vector<std::uint8_t>& marks) {
  const std::vector<compute::LaneGradient> lanes = gradients();
  // Of several lanes the sum stands where the parameters of the next version go.
  const compute::LaneGradient sum =
      compute::sum_of(lanes, next.state.parameters, options_.layout.tensors().size(), marks);
  if (at_once)
    compute::update_slice_at_once(options_.layout, lanes, rule, slice_, current, next.state, next.records);
  else
    compute::sum_and_examine_slice(options_.layout, lanes, sum, slice_, next.state.parameters, next.records);
  return sum;
}

compute::LaneGradient SharedSyncStrategy::reduce_with_others(const compute::UpdateRule& rule, bool at_once,
                                                             const compute::Version& current, HostVersion& next,
                                                             std::vector<std::uint8_t>& marks,
                                                             const Deadline& deadline) {
  const std::span<const HostLane> lanes = std::span(lanes_).first(step_->lanes.size());
  exchange_->exchange_heads(lanes, deadline);
  meet(kHeads, deadline);
  marks.assign(options_.layout.tensors().size(), 0);
  for (const HostLane& lane : lanes) {
    for (std::size_t tensor = 0; tensor < marks.size(); ++tensor)
      marks[tensor] |= lane.area.present[tensor];
  }
  const compute::LaneGradient sum{next.state.parameters.data(), marks.data()};
  const auto ready = [&](const compute::BlockRange& blocks) {
    compute::examine_slice(options_.layout, sum, blocks, next.records);
    if (at_once) compute::update_slice(options_.layout, sum, rule, {}, blocks, current, next.state, {});
  };
  const auto start = exchange_began_.value_or(system_clock().now());
  exchange_->exchange_sums(lanes, next.state.parameters, ready, deadline);
  exchanged_ = std::chrono::duration<double>(system_clock().now() - start).count();
  waited_ += exchange_->take_waited();
  return sum;
}

void SharedSyncStrategy::merge(std::size_t count, std::span<std::byte> out) const {
  std::vector<std::span<const std::byte>> buffers;
  std::vector<double> weights;
  for (std::size_t lane = 0; lane < count; ++lane) {
    buffers.push_back(lanes_[lane].area.buffers);
    weights.push_back(step_->weight(lane));
  }
  compute::merge_buffers(options_.buffers, buffers, weights, out);
}

StepOutcome SharedSyncStrategy::summarize(const compute::Verdict& verdict, std::size_t count) const {
  StepOutcome outcome;
  outcome.applied = verdict.apply;
  outcome.gradient_norm = verdict.gradient_norm;
  outcome.samples = step_->samples();
  std::vector<LaneResult> told;
  for (const HostLane& lane : std::span(lanes_).first(count))
    told.push_back(*lane.result);
  outcome.take(fold_reports(told));
  return outcome;
}

}  // namespace

Traits SharedSync::traits() const {
  return {.keeps_bits = true,
          .replaces_workers = true,
          .shares_host_memory = true,
          .crosses_hosts = true,
          .shares_lanes = true,
          .claims_lanes = true,
          .passes_lanes = true,
          .takes_own_rules = true};
}

StateMemory SharedSync::memory(const StateFigures& figures) const {
  return {2 * figures.version_bytes(), figures.lanes * (figures.parameter_bytes + figures.buffer_bytes),
          figures.lanes * figures.passage_bytes};
}

void SharedSync::add_keys(Section& parallel) {
  parallel.field("exchange_early", &exchange_early,
                 "shared_sync: send sums to other hosts while backward goes on, where each has one worker; the same "
                 "result.");
}

std::unique_ptr<Strategy> SharedSync::make(StrategyOptions needs) const {
  return std::make_unique<SharedSyncStrategy>(*this, std::move(needs));
}

template StrategyChoice::StrategyChoice(SharedSync);
template SharedSync* StrategyChoice::get();

}  // namespace muster::strategies
