#include "muster/strategies/shared_sync/shared_sync.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/comm/arena.h"
#include "muster/strategies/shared_sync/host_layout.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::seconds kStartTimeout{60};
constexpr std::uint64_t kGeneration = 1;

// Phases of a step between its lanes and its commit: everybody's part must be there before anybody goes on.
enum Phase : int { kReduced = 1, kMeasured = 2 };

// The region that all workers of the group share: the first makes it, the others fetch it.
comm::Arena open_arena(comm::Group& group, const comm::ArenaOptions& wanted) {
  struct Announcement {
    std::uint64_t nonce = 0;
    std::array<std::uint8_t, 120> address{};
  };
  static_assert(sizeof(Announcement) == 128);
  Announcement announcement;
  const Deadline deadline = Deadline::after(kStartTimeout);
  const auto bytes = [&] { return std::span(reinterpret_cast<std::uint8_t*>(&announcement), sizeof announcement); };
  if (group.rank() != 0) {
    group.broadcast(bytes(), 0, deadline);
    const auto end = std::find(announcement.address.begin(), announcement.address.end(), 0);
    const std::string address(announcement.address.begin(), end);
    auto region = std::make_shared<const comm::SharedRegion>(comm::fetch_region(address, deadline));
    comm::Arena arena = comm::Arena::attach(std::move(region), announcement.nonce, group.rank());
    if (arena.options().version_bytes != wanted.version_bytes || arena.options().lane_bytes != wanted.lane_bytes ||
        arena.options().lanes != wanted.lanes)
      throw Error(ErrorKind::kMismatch, "this worker's model, optimizer or lanes are not those of the first worker", {},
                  "Start every worker with the same program, arguments and job.");
    group.barrier(deadline);
    return arena;
  }
  comm::ArenaOptions options = wanted;
  std::random_device random;
  options.nonce = announcement.nonce = (std::uint64_t{random()} << 32) | random();
  // Alone, nobody else has to see it.
  auto region = std::make_shared<const comm::SharedRegion>(
      comm::SharedRegion::create(comm::Arena::bytes(options), {.shared = group.size() > 1}));
  comm::Arena::create(region, options);
  std::optional<comm::RegionServer> server;
  if (group.size() > 1) {
    server.emplace(*region);
    MUSTER_CHECK(server->address().size() < announcement.address.size(), "an address fits its message");
    std::copy(server->address().begin(), server->address().end(), announcement.address.begin());
  }
  comm::Arena arena = comm::Arena::attach(std::move(region), options.nonce, 0);
  group.broadcast(bytes(), 0, deadline);
  group.barrier(deadline);
  return arena;
}

class SharedSync final : public Strategy {
  using Views = std::array<std::shared_ptr<comm::ReadOnlyMapping>, 2>;

 public:
  explicit SharedSync(StrategyOptions options)
      : options_(std::move(options)),
        rank_(options_.group.rank()),
        workers_(static_cast<std::size_t>(options_.group.size())),
        arena_(open_arena(options_.group, {.ranks = options_.group.size(),
                                           .lanes = static_cast<int>(options_.lanes),
                                           .version_bytes = version_bytes(options_),
                                           .lane_bytes = lane_bytes(options_)})),
        slice_(slice_of(options_.layout, static_cast<std::size_t>(rank_), workers_)) {
    for (std::size_t buffer = 0; buffer < 2; ++buffer) {
      versions_[buffer] = carve_version(options_, arena_.version(buffer));
      // The model sees its parameters through a mapping that cannot be written.
      views_[buffer] = std::make_shared<comm::ReadOnlyMapping>(arena_.map_version_read_only(buffer));
    }
    for (std::size_t lane = 0; lane < options_.lanes; ++lane)
      lanes_.push_back(carve_lane(options_, arena_.lane(static_cast<int>(lane))));
    if (rank_ == 0) arena_.begin_generation(kGeneration, all_members());
    arena_.enter(kGeneration, Deadline::after(kStartTimeout));
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

  std::size_t state_bytes() const override { return rank_ == 0 ? arena_.region()->bytes().size() : 0; }
  void restore(const CommittedState& state) override;
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
  std::uint64_t all_members() const { return workers_ == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << workers_) - 1; }
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
  const int rank_;
  const std::size_t workers_;
  comm::Arena arena_;
  const compute::BlockRange slice_;
  std::array<HostVersion, 2> versions_;
  Views views_;
  std::vector<HostLane> lanes_;
  // Of this worker.
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  std::size_t next_lane_ = 0;        // static claims: the next to try
  std::optional<std::size_t> held_;  // claimed and not finished
  double waited_ = 0;
};

void SharedSync::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  const Deadline deadline = Deadline::after(kStartTimeout);
  options_.group.barrier(deadline);
  // Both versions: what no step ever changes (frozen tensors) must be right in either.
  for (HostVersion& version : versions_) {
    if (rank_ != 0) break;
    std::ranges::copy(state.parameters, version.state.parameters.begin());
    for (std::size_t slot = 0; slot < version.state.state.size(); ++slot)
      std::ranges::copy(state.state[slot], version.state.state[slot].begin());
    std::ranges::copy(state.updates, version.state.updates.begin());
    std::ranges::copy(state.buffers, version.buffers.begin());
  }
  options_.group.barrier(deadline);
  cursor_ = state.cursor;
  step_.reset();
}

void SharedSync::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at == cursor_, "a plan for another step");
  MUSTER_CHECK(plan.lanes.size() <= options_.lanes, "more lanes than there are areas");
  // A lane that was begun and given up is anybody's again.
  if (held_) arena_.release(static_cast<int>(*held_));
  held_.reset();
  step_ = plan;
  next_lane_ = static_cast<std::size_t>(rank_);
  waited_ = 0;
}

std::vector<std::size_t> SharedSync::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  for (std::size_t lane = static_cast<std::size_t>(rank_); lane < plan.lanes.size(); lane += workers_)
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> SharedSync::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  const std::size_t count = step_->lanes.size();
  // This worker's own lanes first: they were read ahead. A dynamic step then takes what others have not begun.
  for (; !held_ && next_lane_ < count; next_lane_ += workers_) {
    if (arena_.claim(static_cast<int>(next_lane_))) held_ = next_lane_;
  }
  if (!held_ && options_.claims == Claims::kDynamic) {
    if (const std::optional<int> lane = arena_.claim_next(static_cast<int>(count)))
      held_ = static_cast<std::size_t>(*lane);
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
    compute::update_slice(options_.layout, gradients, rule, verdict, slice_, current, next.state, next.norms);
    if (rank_ == 0) merge(count, next.buffers);
  }
  // Before the commit: the lanes belong to the next step after it.
  StepOutcome outcome = summarize(verdict, count);
  timed([&] { arena_.commit(verdict.apply ? comm::Outcome::kFlip : comm::Outcome::kKeep, deadline); });
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
  for (std::size_t lane = 0; lane < count; ++lane) {
    outcome.loss += lanes_[lane].report->loss_sum;
    outcome.correct += lanes_[lane].report->correct;
    outcome.stop |= lanes_[lane].report->stop > 0;
  }
  outcome.loss /= static_cast<double>(outcome.samples);
  return outcome;
}

}  // namespace

std::unique_ptr<Strategy> make_shared_sync(StrategyOptions options) {
  return std::make_unique<SharedSync>(std::move(options));
}

}  // namespace muster::strategies
