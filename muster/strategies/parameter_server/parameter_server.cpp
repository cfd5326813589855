// The strategy's side: leases from the book, pulls before a lane and pushes after it, and outcomes told as the book has
// them. What is specific to a way of consistency is asked of the plan, step by step.
#include "muster/strategies/parameter_server/parameter_server.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/temporary_folder.h"
#include "muster/comm/supervisor_sign.h"
#include "muster/strategies/host_layout.h"
#include "muster/strategies/members/fixed_members.h"
#include "muster/strategies/members/host_members.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "muster/strategies/parameter_server/patience.h"
#include "muster/strategies/parameter_server/server_thread.h"
#include "muster/strategies/parameter_server/server_watch.h"
#include "muster/strategies/parameter_server/shard.h"

namespace muster::strategies {
namespace {

constexpr std::string_view kFolderPrefix = "muster-servers-";
constexpr std::chrono::hours kGatherTimeout{1};  // of a fixed group, whose ranks may load for very different times
// Limits of a fixed group, which nobody watches (patience.h): from one answer of the servers to the next, however many
// the whole model needs; and from one of the others' lanes to the next.
constexpr std::chrono::seconds kAnswerTime{120};
constexpr std::chrono::seconds kLaneTime{600};
// Numbers of workers as clients, where these are on several hosts: hosts come and go, and no number of theirs is given
// twice.
constexpr std::uint32_t kSeatsOfAHost = 64;
constexpr std::uint32_t kMostHostNumbers = 1 << 18;

// Servers hold the state: all that a host's workers share of their own is who they are.
std::unique_ptr<Membership> make_members(const StrategyOptions& options) {
  if (options.supervised) return std::make_unique<HostMembers>(options.supervised, options.group);
  return std::make_unique<FixedMembers>(options.group, options.note);
}

class ParameterServerStrategy final : public Strategy {
 public:
  ParameterServerStrategy(const ParameterServer& chosen, StrategyOptions options);

  std::array<std::span<const float>, 2> parameter_versions() override { return {parameters(), parameters()}; }
  std::shared_ptr<void> memory() override {
    return std::make_shared<
        std::pair<std::shared_ptr<const comm::SharedRegion>, std::shared_ptr<comm::ReadOnlyMapping>>>(region_, view_);
  }
  int committed_version() const override { return 0; }
  CommittedState committed() const override {
    return {state_.parameters, {state_.state[0], state_.state[1]}, state_.updates, buffers_, cursor_};
  }
  std::size_t state_bytes() const override { return region_->bytes().size(); }

  void restore(const CommittedState& state) override;
  Membership& membership() override { return *members_; }
  std::optional<StepOutcome> enter_generation() override;

  void announce_rule(const compute::UpdateRule& rule) override {
    rate_ = rule.lr;
    clip_norm_ = rule.clip_norm;
  }
  void begin_step(const data::StepPlan& plan) override;
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override;
  std::optional<std::size_t> claim() override;
  compute::LaneArea area(std::size_t) override { return lane_.area; }
  void finish(std::size_t lane, const LaneResult& result) override;
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;
  void synchronize(Deadline deadline) override;
  std::string counted() override;

 private:
  std::shared_ptr<comm::Store> find_store();
  ServerPlan make_plan() const;
  JobTransport find_transport();
  std::unique_ptr<ServerThread> serve();
  // Under a supervisor a worker waits for others to get ready as long as that one lives. In a fixed group they have met
  // just before, and what is waited for comes at once.
  template <typename Wait>
  auto patiently(const Wait& wait) const {
    return comm::wait_while_supervised(options_.supervised ? options_.supervised->folder : "", kAnswerTime, wait);
  }
  // Until members_ is there, which knows whether another one has been appointed.
  bool is_first() const { return options_.supervised ? options_.supervised->founds_job() : options_.group.rank() == 0; }
  // Whether it is this worker that gives the servers their first state.
  bool founds() const {
    return members_->founds() && (!on_several_hosts() || options_.supervised->host->number == control::kFirstHost);
  }
  bool on_several_hosts() const { return options_.supervised && options_.supervised->host; }
  // As the model sees them: what it writes would be overwritten by the next pull, without a word.
  std::span<const float> parameters() const {
    return {reinterpret_cast<const float*>(view_->bytes().data()), state_.parameters.size()};
  }
  std::uint32_t book() const { return static_cast<std::uint32_t>(chunks_.size()); }
  // As a client of servers, and as a server where workers serve.
  std::uint32_t number() const {
    const auto seat =
        static_cast<std::uint32_t>(options_.supervised ? options_.supervised->seat : options_.group.rank());
    if (!on_several_hosts()) return seat;
    return static_cast<std::uint32_t>(options_.supervised->host->number % kMostHostNumbers) * kSeatsOfAHost + seat;
  }
  // Of the next call.
  static Deadline soon() { return Deadline::after(kAnswerTime); }
  bool synchronous() const { return is_synchronous(plan_.consistency_at(cursor_.step)); }

  LeaseReply lease(Want want, std::uint64_t step, const Deadline& deadline);
  void finish_all(std::span<const Client::Ticket> tickets);
  void pull(bool exact);
  void begin_pushing();
  void push_lane(std::size_t lane, double scale, bool kept);
  void push_skip(std::size_t lane);
  void call_all(const Verb& verb, std::uint32_t end);
  void push_entry(std::size_t lane, const LaneResult& result, LaneManner manner);
  void finish_step(const LeaseReply& granted);
  void read_state();
  StepOutcome outcome_of(const StepResult& result) const;
  [[noreturn]] void throw_left_behind(const LeaseReply& answer) const;
  std::uint64_t floor();

  // Constant after construction. The group is a copy of the caller's, the same group.
  const ParameterServer chosen_;
  StrategyOptions options_;
  // Whether a supervisor sees who gets on.
  const std::function<bool()> watched_ = [this] {
    return options_.supervised && comm::supervisor_lives(options_.supervised->folder);
  };
  std::optional<TemporaryFolder> folder_;  // of a store that this worker has made
  const std::shared_ptr<comm::Store> store_;
  const ServerPlan plan_;
  const JobTransport transport_;
  const std::unique_ptr<ServerThread> server_;  // where workers serve
  const std::optional<ServerWatch> heartbeat_;
  const std::unique_ptr<Membership> members_;
  const std::vector<ServerChunk> chunks_;
  const std::size_t most_body_;
  Client client_;
  // What this worker has: parameters and buffers as it last pulled them, the rest as it last synchronized, one lane.
  std::shared_ptr<const comm::SharedRegion> region_;
  std::shared_ptr<comm::ReadOnlyMapping> view_;  // of the parameters
  FlatState state_;
  std::vector<std::uint64_t> updates_;
  std::vector<std::byte> buffers_;
  HostLane lane_;
  std::vector<std::uint64_t> versions_;  // by chunk, as pulled
  std::vector<compute::BlockSum> records_;
  // Where it stands.
  data::Cursor cursor_;
  std::optional<data::StepPlan> step_;
  std::optional<std::uint64_t> pulled_;  // synchronous step whose parameters are here
  std::uint64_t leased_version_ = 0;     // of the book
  double rate_ = 0;
  std::optional<double> clip_norm_;
  StepResult seen_;  // totals of the book that outcomes have told of
  bool skipped_ = false;
  double norm_ = 0;
  double waited_ = 0;
};

ParameterServerStrategy::ParameterServerStrategy(const ParameterServer& chosen, StrategyOptions options)
    : chosen_(chosen),
      options_(std::move(options)),
      store_(find_store()),
      plan_(make_plan()),
      transport_(find_transport()),
      server_(serve()),
      heartbeat_(server_ ? std::optional<ServerWatch>(std::in_place, server_->server()) : std::nullopt),
      members_(make_members(options_)),
      chunks_(plan_.chunks()),
      most_body_(plan_.limits().most_body),
      client_({number(), store_, transport_.connect, [this] { members_->throw_if_interrupted(); }, watched_}),
      updates_(options_.layout.tensors().size()),
      buffers_(options_.buffers.bytes),
      versions_(chunks_.size()),
      records_(options_.layout.blocks().size()) {
  // Parameters, slots and one lane's gradient. Only this process uses it; it is shared memory so that it can be mapped
  // a second time.
  const std::size_t floats = options_.layout.size();
  const std::size_t arrays = 2 + static_cast<std::size_t>(options_.slots);
  const std::size_t rest = options_.layout.tensors().size() + options_.buffers.bytes + 64;
  region_ = std::make_shared<const comm::SharedRegion>(
      comm::SharedRegion::create(arrays * floats * sizeof(float) + rest + 64, {.make_now = true}));
  view_ = std::make_shared<comm::ReadOnlyMapping>(region_->map_read_only(0, floats * sizeof(float)));
  auto* base = reinterpret_cast<float*>(region_->bytes().data());
  state_.parameters = {base, floats};
  for (int slot = 0; slot < options_.slots; ++slot)
    state_.state[static_cast<std::size_t>(slot)] = {base + (1 + static_cast<std::size_t>(slot)) * floats, floats};
  state_.updates = updates_;
  lane_.area.gradient = {base + (arrays - 1) * floats, floats};
  auto* bytes = reinterpret_cast<std::byte*>(base + arrays * floats);
  lane_.area.buffers = {bytes, options_.buffers.bytes};
  lane_.area.present = {reinterpret_cast<std::uint8_t*>(bytes + options_.buffers.bytes),
                        options_.layout.tensors().size()};

  if (!options_.supervised && members_->founds()) put_first_map(*store_, plan_, Deadline::after(kGatherTimeout));
}

JobTransport ParameterServerStrategy::find_transport() {
  if (is_first()) {
    put_token(*store_, plan_);
    put_plan(*store_, plan_);
  }
  return patiently([&](const Deadline& deadline) { return job_transport(*store_, plan_, deadline); });
}

// Before anybody waits for this worker: the first map waits for all servers, and the founder for the first map.
std::unique_ptr<ServerThread> ParameterServerStrategy::serve() {
  if (chosen_.servers > 0) return nullptr;
  ServerOptions server;
  server.number = number();
  server.attempt = options_.supervised ? static_cast<std::uint32_t>(options_.supervised->attempt) : 0;
  server.store = store_;
  server.make_inbox = transport_.make_inbox;
  server.connect = transport_.connect;
  server.watched = watched_;
  patiently([&](const Deadline& deadline) { return get_plan(*store_, deadline); });  // the founder's
  return std::make_unique<ServerThread>(std::move(server));
}

// Where servers and workers find each other.
std::shared_ptr<comm::Store> ParameterServerStrategy::find_store() {
  if (options_.supervised) return options_.supervised->store;
  if (options_.group.size() == 1) return comm::make_memory_store();
  std::array<std::uint8_t, 256> name{};
  if (options_.group.rank() == 0) {
    remove_abandoned(kFolderPrefix);
    folder_.emplace(kFolderPrefix);
    const std::string path = folder_->path().string();
    MUSTER_CHECK(path.size() < name.size(), "a path fits its message");
    std::copy(path.begin(), path.end(), name.begin());
  }
  options_.group.broadcast(std::span<std::uint8_t>(name), 0, Deadline::after(kGatherTimeout));
  return comm::make_file_store(std::string(name.begin(), std::find(name.begin(), name.end(), 0)));
}

ServerPlan ParameterServerStrategy::make_plan() const {
  const int workers = options_.supervised ? options_.supervised->seats : options_.group.size();
  const int servers = static_cast<int>(chosen_.servers);
  ServerPlan plan;
  plan.layout = options_.layout;
  plan.buffers = options_.buffers;
  plan.optimizer = options_.optimizer;
  plan.rules = options_.rules;
  plan.rules.resize(plan.layout.tensors().size());
  plan.chunk_floats =
      std::max<std::size_t>(model::kBlockFloats, (static_cast<std::size_t>(chosen_.chunk_kb) << 10) / sizeof(float));
  plan.lanes = static_cast<std::uint32_t>(options_.lanes);
  plan.phases = parse_phases(chosen_.consistency);
  plan.bound = static_cast<std::uint64_t>(chosen_.staleness);
  plan.backups = static_cast<std::uint32_t>(chosen_.backups);
  plan.staleness_rate = chosen_.staleness_rate;
  plan.workers = static_cast<std::uint32_t>(workers);
  plan.servers = static_cast<std::uint32_t>(servers == 0 ? workers : control::most_servers(servers));
  plan.copies = static_cast<std::uint32_t>(chosen_.copies);
  plan.hosts = on_several_hosts();
  if (plan.hosts) plan.workers = kMostHostNumbers * kSeatsOfAHost;
  plan.grpc = chosen_.transport == "grpc" || plan.hosts;
  plan.snapshot_seconds = chosen_.snapshot_seconds;
  plan.folder = chosen_.folder;
  if (plan.folder.empty() && options_.supervised && !plan.hosts) plan.folder = options_.supervised->folder;
  plan.event_log = chosen_.event_log;
  return plan;
}

void ParameterServerStrategy::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  const Deadline deadline = Deadline::after(kGatherTimeout);
  const bool fixed = !members_->replaces();
  if (fixed) options_.group.barrier(deadline);
  std::ranges::copy(state.parameters, state_.parameters.begin());
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(options_.slots); ++slot)
    std::ranges::copy(state.state[slot], state_.state[slot].begin());
  std::ranges::copy(state.updates, updates_.begin());
  std::ranges::copy(state.buffers, buffers_.begin());
  patiently([&](const Deadline& until) { client_.find_servers(until); });
  if (founds()) {
    ChunkHistory history;
    history.lanes = AppliedSet(state.cursor.step);
    for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const std::vector<std::byte> packed =
          pack_chunk(chunks_[chunk], history, state_, static_cast<std::size_t>(options_.slots));
      client_.write_chunk(chunk, Shard::first_state(packed), most_body_, soon());
    }
    client_.write_chunk(book(), Book::first_state(plan_, state.cursor.step, state.buffers), most_body_, soon());
  }
  if (fixed) options_.group.barrier(deadline);
  cursor_ = state.cursor;
  step_.reset();
  pulled_.reset();
  seen_ = {};
}

std::uint64_t ParameterServerStrategy::floor() {
  // That all steps before the first one are over is never waited for.
  return lease(Want::kSettled, 0, soon()).floor;
}

std::optional<StepOutcome> ParameterServerStrategy::enter_generation() {
  const bool in_work = step_.has_value() && synchronous();
  std::optional<StepOutcome> committed;
  if (members_->replaces()) {
    // Where nobody is replaced all begin where restore() said: others may have done steps by now, but only a supervised
    // session knows which samples a later step has.
    const std::uint64_t reached = floor();
    // The servers know whether the step in work was closed after all.
    if (in_work && reached > cursor_.step) {
      const LeaseReply closed = lease(Want::kCommitted, cursor_.step, soon());
      if (closed.result) committed = outcome_of(*closed.result);
    }
    // One that comes later begins where the first lane is missing; lanes of those who were lost may be anywhere from
    // here on.
    cursor_.step = reached;
  }
  step_.reset();
  pulled_.reset();
  pull(false);
  return committed;
}

// Asks the book, again and again until it has an answer. Whatever changes in the book meanwhile is progress.
LeaseReply ParameterServerStrategy::lease(Want want, std::uint64_t step, const Deadline& deadline) {
  const LeaseRequest request{.want = want,
                             .step = step,
                             .lanes = step_ ? static_cast<std::uint32_t>(step_->lanes.size()) : 1,
                             .place = static_cast<std::uint32_t>(members_->members().index()),
                             .workers = static_cast<std::uint32_t>(members_->members().count()),
                             .workers_generation = members_->members().generation};
  const auto start = system_clock().now();
  Patience patience(deadline, watched_);
  for (;;) {
    const Reply answer = client_.call(book(), request, {}, {}, soon());
    if (answer.status == Status::kDone) {
      waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
      return details_of<LeaseReply>(answer);
    }
    members_->throw_if_interrupted();
    if (patience.is_over(answer.version))
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the lanes of step {} that other workers compute do not come", step + 1));
  }
}

void ParameterServerStrategy::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at.step == cursor_.step, "a plan for another step");
  members_->enter_step(static_cast<std::int64_t>(plan.at.step));
  cursor_ = plan.at;
  step_ = plan;
  waited_ = 0;
  skipped_ = false;
  norm_ = 0;
}

std::vector<std::size_t> ParameterServerStrategy::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  const Members& members = members_->members();
  for (std::size_t lane = members.index(); lane < plan.lanes.size(); lane += members.count())
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> ParameterServerStrategy::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  members_->throw_if_interrupted();
  // Lanes of a worker that was lost are anybody's.
  const bool own_only =
      synchronous() && options_.claims == Claims::kStatic && members_->members().generation <= kFirstGeneration;
  const LeaseReply granted = lease(own_only ? Want::kOwnLane : Want::kLane, cursor_.step, Deadline::after(kLaneTime));
  if (granted.grant != Grant::kLane) return std::nullopt;
  leased_version_ = granted.updates;
  if (!synchronous() || pulled_ != cursor_.step) pull(synchronous());
  if (synchronous()) pulled_ = cursor_.step;
  return granted.lane;
}

void ParameterServerStrategy::finish_all(std::span<const Client::Ticket> tickets) {
  for (const Client::Ticket ticket : tickets)
    client_.finish(ticket, soon());
}

// All chunks and the buffers, as they are now; or, `exact`, with all steps before this one.
void ParameterServerStrategy::pull(bool exact) {
  const std::optional<std::uint64_t> settled = exact ? std::optional(cursor_.step) : std::nullopt;
  std::vector<Client::Ticket> tickets;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk)
    tickets.push_back(client_.start(
        chunk, PullRequest{settled}, {},
        std::as_writable_bytes(state_.parameters.subspan(chunks_[chunk].begin, chunks_[chunk].floats())), soon()));
  tickets.push_back(client_.start(book(), PullBuffersRequest{settled}, {}, buffers_, soon()));
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Reply reply = client_.finish(tickets[i], soon());
    if (i < versions_.size()) versions_[i] = reply.version;
  }
}

void ParameterServerStrategy::push_lane(std::size_t lane, double scale, bool kept) {
  std::vector<Client::Ticket> tickets;
  std::vector<std::vector<std::byte>> marked;  // bodies with marks
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const ServerChunk& place = chunks_[chunk];
    const auto marks = lane_.area.present.subspan(place.first_tensor, place.last_tensor - place.first_tensor);
    PushLaneRequest push{.step = cursor_.step,
                         .lane = static_cast<std::uint32_t>(lane),
                         .lanes = static_cast<std::uint32_t>(step_->lanes.size()),
                         .pulled_version = versions_[chunk],
                         .rate = rate_,
                         .scale = scale,
                         .manner = kept ? LaneManner::kKept : LaneManner::kAtOnce};
    std::span<const std::byte> body = std::as_bytes(lane_.area.gradient.subspan(place.begin, place.floats()));
    if (std::find(marks.begin(), marks.end(), 0) != marks.end()) {
      push.some_absent = true;
      std::vector<std::byte>& own = marked.emplace_back(body.begin(), body.end());
      const auto bytes = std::as_bytes(marks);
      own.insert(own.end(), bytes.begin(), bytes.end());
      body = own;
    }
    tickets.push_back(client_.start(chunk, push, body, {}, soon()));
  }
  finish_all(tickets);
}

// Of a lane without an update: chunks know of it, as of all others, or they would wait for it for ever.
void ParameterServerStrategy::push_skip(std::size_t lane) {
  const PushLaneRequest skip{.step = cursor_.step,
                             .lane = static_cast<std::uint32_t>(lane),
                             .lanes = static_cast<std::uint32_t>(step_->lanes.size()),
                             .manner = LaneManner::kSkipped};
  call_all(skip, static_cast<std::uint32_t>(chunks_.size()));
}

// The same request to all chunks below `end`.
void ParameterServerStrategy::call_all(const Verb& verb, std::uint32_t end) {
  std::vector<Client::Ticket> tickets;
  for (std::uint32_t chunk = 0; chunk < end; ++chunk)
    tickets.push_back(client_.start(chunk, verb, {}, {}, soon()));
  finish_all(tickets);
}

// The lane is computed. A server that has just taken a lost one's place may load for longer than any lane takes: it is
// waited for, and whoever watches must not take this worker for one that hangs.
void ParameterServerStrategy::begin_pushing() {
  members_->begin(comm::Activity::kWaiting);
}

// The lane into the book: from now on it counts.
void ParameterServerStrategy::push_entry(std::size_t lane, const LaneResult& result, LaneManner manner) {
  const PushEntryRequest push{.step = cursor_.step,
                              .lane = static_cast<std::uint32_t>(lane),
                              .lanes = static_cast<std::uint32_t>(step_->lanes.size()),
                              .leased_version = leased_version_,
                              .manner = manner,
                              .entry = LaneEntry::of(result, step_->lanes[lane].size())};
  client_.call(book(), push, lane_.area.buffers, {}, soon());
}

void ParameterServerStrategy::finish(std::size_t lane, const LaneResult& result) {
  MUSTER_FAILPOINT("parameter_server.push.before");
  if (synchronous()) {
    begin_pushing();
    push_lane(lane, 1, true);
    MUSTER_FAILPOINT("parameter_server.push.before_book");
    push_entry(lane, result, LaneManner::kKept);
    return;
  }
  const compute::LaneGradient own{lane_.area.gradient.data(), lane_.area.present.data()};
  for (std::size_t index = 0; index < records_.size(); ++index) {
    const model::Block& block = options_.layout.blocks()[index];
    records_[index] = own.present[block.tensor] != 0
                          ? compute::examine({own.values + block.begin, static_cast<std::size_t>(block.size())})
                          : compute::BlockSum{};
  }
  // Clipped by the norm of a mean over the lane, which is what clip_norm speaks of.
  const double weight = step_->weight(lane);
  const std::optional<double> clip = clip_norm_ ? std::optional(*clip_norm_ * weight) : std::nullopt;
  const compute::Verdict verdict = compute::judge_step(records_, clip);
  norm_ = verdict.gradient_norm / weight;
  skipped_ = skipped_ || !verdict.apply;
  begin_pushing();
  if (verdict.apply)
    push_lane(lane, verdict.gradient_scale, false);
  else
    push_skip(lane);
  MUSTER_FAILPOINT("parameter_server.push.before_book");
  push_entry(lane, result, verdict.apply ? LaneManner::kAtOnce : LaneManner::kSkipped);
}

// All lanes that count are there: this worker sums them up, decides and has it applied, the book last.
void ParameterServerStrategy::finish_step(const LeaseReply& granted) {
  std::vector<Client::Ticket> tickets;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const compute::BlockRange blocks = chunks_[chunk].blocks;
    tickets.push_back(client_.start(
        chunk, RecordsRequest{cursor_.step, granted.mask}, {},
        std::as_writable_bytes(std::span(records_).subspan(blocks.first, blocks.last - blocks.first)), soon()));
  }
  finish_all(tickets);
  MUSTER_FAILPOINT("parameter_server.finish.before_apply");

  // Without its late lanes a step's gradient is the mean over the samples of those that came.
  const double share = static_cast<double>(step_->samples()) / static_cast<double>(granted.samples);
  const std::optional<double> clip = clip_norm_ ? std::optional(*clip_norm_ / share) : std::nullopt;
  const compute::Verdict verdict = compute::judge_step(records_, clip);
  const double scale = share == 1 ? verdict.gradient_scale : verdict.gradient_scale * share;
  call_all(ApplyRequest{cursor_.step, granted.mask, rate_, scale, !verdict.apply},
           static_cast<std::uint32_t>(chunks_.size()));
  MUSTER_FAILPOINT("parameter_server.finish.before_book");
  client_.call(book(), CloseRequest{cursor_.step, granted.mask, verdict.gradient_norm * share, !verdict.apply}, {}, {},
               soon());
}

StepOutcome ParameterServerStrategy::outcome_of(const StepResult& result) const {
  StepOutcome outcome;
  outcome.applied = result.applied != 0;
  outcome.gradient_norm = result.gradient_norm;
  outcome.samples = result.samples;
  outcome.take(result.totals());
  outcome.waited = waited_;
  outcome.synchronized = false;
  return outcome;
}

// Nobody knows any more what the step came to: going on would tell of a step without loss and samples, and might miss
// the wish of another worker.
void ParameterServerStrategy::throw_left_behind(const LeaseReply& answer) const {
  throw Error(ErrorKind::kTimeout,
              fmt::format("this worker is at step {} while the others have done {}: what its step came to is not kept",
                          cursor_.step + 1, answer.floor),
              {},
              "Give it as much of the machine as the others have, or start it again: it begins where the others are.");
}

StepOutcome ParameterServerStrategy::commit(const compute::UpdateRule& rule, Deadline deadline) {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
  rate_ = rule.lr;
  clip_norm_ = rule.clip_norm;
  StepResult result;
  for (;;) {
    const LeaseReply answer = lease(Want::kCommitted, cursor_.step, deadline);
    if (answer.grant != Grant::kFinish) {
      if (!answer.result) throw_left_behind(answer);
      result = *answer.result;
      break;
    }
    finish_step(answer);
  }
  if (!synchronous()) {
    // Totals: what is new since this worker last asked is its part of the story. Those of a book that was lost and
    // began again may be lower.
    if (result.samples < seen_.samples) seen_ = result;
    StepResult fresh = result;
    fresh.loss_sum -= seen_.loss_sum;
    fresh.score -= seen_.score;
    fresh.samples -= seen_.samples;
    fresh.gradient_norm = norm_;
    fresh.applied = skipped_ ? 0 : 1;
    seen_ = result;
    result = fresh;
  }
  StepOutcome outcome = outcome_of(result);
  cursor_ = step_->next;
  step_.reset();
  return outcome;
}

// Parameters, optimizer state and updates of all chunks.
void ParameterServerStrategy::read_state() {
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::vector<std::byte> bytes = client_.read_chunk(chunk, most_body_, soon());
    unpack_chunk(chunks_[chunk], Shard::packed_part(bytes), state_, static_cast<std::size_t>(options_.slots));
  }
}

void ParameterServerStrategy::synchronize(Deadline deadline) {
  lease(Want::kSettled, cursor_.step, deadline);
  pull(true);
  if (members_->members().leads()) {
    read_state();
    // From here on nobody goes back behind this step: what is validated now is not validated again.
    if (plan_.snapshot_seconds > 0) call_all(KeepRequest{}, plan_.chunk_count());
  }
  // Nobody goes on before all have read, however large the state is: who hangs meanwhile is seen where somebody
  // watches.
  comm::Group group = members_->members().group;
  group.barrier(watched_() ? Deadline::after(kGatherTimeout) : deadline);
}

// Of the server that has the book.
std::string ParameterServerStrategy::counted() {
  std::vector<std::byte> text(4096);
  const Reply reply = client_.call(book(), ReportRequest{}, {}, text, soon());
  return {reinterpret_cast<const char*>(text.data()), std::min<std::size_t>(reply.bytes, text.size())};
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const ParameterServer& chosen, StrategyOptions needs) {
  return std::make_unique<ParameterServerStrategy>(chosen, std::move(needs));
}

}  // namespace muster::strategies
