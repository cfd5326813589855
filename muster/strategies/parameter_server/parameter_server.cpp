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
#include "muster/strategies/members/host_members.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/job_transport.h"
#include "muster/strategies/parameter_server/server_thread.h"
#include "muster/strategies/parameter_server/server_watch.h"
#include "muster/strategies/shared_sync/host_layout.h"

namespace muster::strategies {
namespace {

constexpr std::string_view kFolderPrefix = "muster-servers-";
constexpr std::chrono::seconds kStartTimeout{120};
constexpr std::chrono::hours kGatherTimeout{1};     // of a fixed group, whose ranks may load for very different times
constexpr std::chrono::seconds kCallTimeout{120};   // for a server that is lost to be replaced
constexpr std::chrono::seconds kLeaseTimeout{600};  // for others' lanes: what hangs is killed long before

class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(StrategyOptions options);

  std::array<std::span<const float>, 2> parameter_versions() override { return {parameters(), parameters()}; }
  std::shared_ptr<void> memory() override {
    return std::make_shared<std::shared_ptr<const comm::SharedRegion>>(region_);
  }
  int committed_version() const override { return 0; }
  CommittedState committed() const override {
    return {state_.parameters, {state_.state[0], state_.state[1]}, state_.updates, buffers_, cursor_};
  }
  std::size_t state_bytes() const override { return region_->bytes().size(); }

  void restore(const CommittedState& state) override;
  void meet() override;
  Members members() const override { return members_.members(); }
  std::optional<StepOutcome> rejoin() override;
  std::chrono::nanoseconds abandoned_for() const override { return members_.abandoned_for(); }
  void begin(comm::Activity activity) override { members_.arena().board().begin(activity); }
  void write_note(const std::string& text) override { members_.arena().write_note(text); }
  std::string note() const override { return members_.arena().note(); }

  void announce_rule(const compute::UpdateRule& rule) override {
    rate_ = rule.lr;
    clip_norm_ = rule.clip_norm;
  }
  void begin_step(const data::StepPlan& plan) override;
  std::vector<std::size_t> expected_lanes(const data::StepPlan& plan) const override;
  std::optional<std::size_t> claim() override;
  compute::LaneArea area(std::size_t) override { return lane_.area; }
  void finish(std::size_t lane, const compute::LaneReport& report) override;
  StepOutcome commit(const compute::UpdateRule& rule, Deadline deadline) override;
  void synchronize(Deadline deadline) override;
  std::string counted() override;

 private:
  std::shared_ptr<comm::Store> find_store();
  ServerPlan make_plan() const;
  JobTransport find_transport();
  std::unique_ptr<ServerThread> serve();
  // Under a supervisor a worker waits for others to get ready as long as that one lives.
  template <typename Wait>
  auto patiently(const Wait& wait) const {
    return comm::wait_while_supervised(options_.supervised ? options_.supervised->folder : "", kStartTimeout, wait);
  }
  // Until members_ is there, which knows whether another one has been appointed.
  bool is_first() const { return options_.supervised ? options_.supervised->founder : options_.group.rank() == 0; }
  std::span<const float> parameters() const { return state_.parameters; }
  std::uint32_t book() const { return static_cast<std::uint32_t>(chunks_.size()); }
  std::uint32_t number() const {
    return static_cast<std::uint32_t>(options_.supervised ? options_.supervised->seat : options_.group.rank());
  }
  bool synchronous() const { return is_synchronous(plan_.consistency_at(cursor_.step)); }

  Header lease(Want want, std::span<std::byte> body, const Deadline& deadline);
  void pull(bool exact, const Deadline& deadline);
  void push_lane(std::size_t lane, double scale, bool kept, const Deadline& deadline);
  void push_skip(std::size_t lane, const Deadline& deadline);
  void call_all(Header request, std::uint32_t end, const Deadline& deadline);
  void push_entry(std::size_t lane, const compute::LaneReport& report, std::uint32_t flags, const Deadline& deadline);
  void finish_step(const Header& granted, const Deadline& deadline);
  void read_state(const Deadline& deadline);
  StepOutcome outcome_of(const StepResult& result) const;
  std::uint64_t floor();

  // Constant after construction. The group is a copy of the caller's, the same group.
  StrategyOptions options_;
  std::optional<TemporaryFolder> folder_;  // of a store that this worker has made
  const std::shared_ptr<comm::Store> store_;
  const ServerPlan plan_;
  const JobTransport transport_;
  const std::unique_ptr<ServerThread> server_;  // where workers serve
  const std::optional<ServerWatch> heartbeat_;
  HostMembers members_;
  const std::vector<ServerChunk> chunks_;
  const std::size_t most_body_;
  Client client_;
  // What this worker has: parameters and buffers as it last pulled them, the rest as it last synchronized, one lane.
  std::shared_ptr<const comm::SharedRegion> region_;
  FlatState state_;
  std::vector<std::uint64_t> updates_;
  std::vector<std::byte> buffers_;
  HostLane lane_;
  compute::LaneReport report_;
  std::vector<std::uint64_t> versions_;  // by chunk, as pulled
  std::vector<compute::BlockSum> records_;
  std::vector<std::byte> body_;
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

ParameterServer::ParameterServer(StrategyOptions options)
    : options_(std::move(options)),
      store_(find_store()),
      plan_(make_plan()),
      transport_(find_transport()),
      server_(serve()),
      heartbeat_(server_ ? std::optional<ServerWatch>(std::in_place, server_->server()) : std::nullopt),
      members_(options_.supervised, options_.group, {.lanes = 1, .version_bytes = 64, .lane_bytes = 64}),
      chunks_(plan_.chunks()),
      most_body_(plan_.limits().most_body),
      client_({number(), store_, transport_.connect, [this] { members_.arena().throw_if_superseded(); }}),
      updates_(options_.layout.tensors().size()),
      buffers_(options_.buffers.bytes),
      versions_(chunks_.size()),
      records_(options_.layout.blocks().size()) {
  // Parameters, slots and one lane's gradient, in memory of this process alone.
  const std::size_t floats = options_.layout.size();
  const std::size_t arrays = 2 + static_cast<std::size_t>(options_.slots);
  const std::size_t rest = options_.layout.tensors().size() + options_.buffers.bytes + 64;
  region_ = std::make_shared<const comm::SharedRegion>(
      comm::SharedRegion::create(arrays * floats * sizeof(float) + rest + 64, {.shared = false}));
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
  lane_.report = &report_;

  if (!options_.supervised && members_.founds()) put_first_map(*store_, plan_, Deadline::after(kStartTimeout));
}

JobTransport ParameterServer::find_transport() {
  if (is_first()) {
    put_token(*store_, plan_);
    put_plan(*store_, plan_);
  }
  return patiently([&](const Deadline& deadline) { return job_transport(*store_, plan_, deadline); });
}

// Before anybody waits for this worker: the first map waits for all servers, and the founder for the first map.
std::unique_ptr<ServerThread> ParameterServer::serve() {
  if (options_.parameter_server.servers > 0) return nullptr;
  ServerOptions server;
  server.number = number();
  server.attempt = options_.supervised ? static_cast<std::uint32_t>(options_.supervised->attempt) : 0;
  server.store = store_;
  server.make_inbox = transport_.make_inbox;
  server.connect = transport_.connect;
  patiently([&](const Deadline& deadline) { return get_plan(*store_, deadline); });  // the founder's
  return std::make_unique<ServerThread>(std::move(server));
}

// Where servers and workers find each other.
std::shared_ptr<comm::Store> ParameterServer::find_store() {
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

ServerPlan ParameterServer::make_plan() const {
  const ParameterServerOptions& wanted = options_.parameter_server;
  const int workers = options_.supervised ? options_.supervised->seats : options_.group.size();
  ServerPlan plan;
  plan.layout = options_.layout;
  plan.buffers = options_.buffers;
  plan.optimizer = options_.optimizer;
  plan.rules = options_.rules;
  plan.rules.resize(plan.layout.tensors().size());
  plan.chunk_floats = std::max<std::size_t>(model::kBlockFloats, wanted.chunk_bytes / sizeof(float));
  plan.lanes = static_cast<std::uint32_t>(options_.lanes);
  plan.phases = wanted.phases;
  plan.bound = wanted.staleness;
  plan.backups = static_cast<std::uint32_t>(wanted.backups);
  plan.staleness_rate = wanted.staleness_rate;
  plan.workers = static_cast<std::uint32_t>(workers);
  plan.servers = static_cast<std::uint32_t>(wanted.servers == 0 ? workers : control::most_servers(wanted.servers));
  plan.copies = static_cast<std::uint32_t>(wanted.copies);
  plan.grpc = wanted.grpc;
  plan.snapshot_seconds = wanted.snapshot_seconds;
  plan.folder = wanted.folder;
  plan.event_log = wanted.event_log;
  return plan;
}

void ParameterServer::restore(const CommittedState& state) {
  MUSTER_CHECK(state.parameters.size() == options_.layout.size() && state.buffers.size() == options_.buffers.bytes,
               "state of another model");
  const Deadline deadline = Deadline::after(kGatherTimeout);
  const bool fixed = !members_.supervised();
  if (fixed) options_.group.barrier(deadline);
  std::ranges::copy(state.parameters, state_.parameters.begin());
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(options_.slots); ++slot)
    std::ranges::copy(state.state[slot], state_.state[slot].begin());
  std::ranges::copy(state.updates, updates_.begin());
  std::ranges::copy(state.buffers, buffers_.begin());
  patiently([&](const Deadline& until) { client_.find_servers(until); });
  if (members_.founds()) {
    ChunkHistory history;
    history.lanes = AppliedSet(state.cursor.step);
    for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      const std::vector<std::byte> packed =
          pack_chunk(chunks_[chunk], history, state_, static_cast<std::size_t>(options_.slots));
      client_.write_chunk(chunk, Shard::first_state(packed), most_body_, Deadline::after(kStartTimeout));
    }
    client_.write_chunk(book(), Book::first_state(plan_, state.cursor.step, state.buffers), most_body_,
                        Deadline::after(kStartTimeout));
  }
  if (fixed) options_.group.barrier(deadline);
  cursor_ = state.cursor;
  step_.reset();
  pulled_.reset();
  seen_ = {};
}

std::uint64_t ParameterServer::floor() {
  const std::uint64_t step = std::exchange(cursor_.step, 0);
  const Header answer = lease(Want::kSettled, {}, Deadline::after(kCallTimeout));
  cursor_.step = step;
  return answer.id;
}

void ParameterServer::meet() {
  patiently([&](const Deadline& deadline) { client_.find_servers(deadline); });
  if (members_.supervised()) {
    members_.meet();
    // One that comes later begins where the first lane is missing. Where nobody does all begin where restore() said:
    // others may have done steps by now, but only a supervised session knows which samples a later step has.
    cursor_.step = floor();
  }
  pull(false, Deadline::after(kCallTimeout));
}

std::optional<StepOutcome> ParameterServer::rejoin() {
  if (!members_.supervised()) return Strategy::rejoin();
  const bool in_work = step_.has_value() && synchronous();
  members_.rejoin();
  std::optional<StepOutcome> committed;
  // The servers know whether the step in work was closed after all.
  const std::uint64_t reached = floor();
  if (in_work && reached > cursor_.step) {
    StepResult result;
    lease(Want::kCommitted, std::as_writable_bytes(std::span(&result, 1)), Deadline::after(kCallTimeout));
    committed = outcome_of(result);
  }
  // Lanes of those who were lost may be anywhere from here on.
  cursor_.step = reached;
  step_.reset();
  pulled_.reset();
  pull(false, Deadline::after(kCallTimeout));
  return committed;
}

// Asks the book, again and again until it has an answer.
Header ParameterServer::lease(Want want, std::span<std::byte> body, const Deadline& deadline) {
  Header request;
  request.verb = Verb::kLease;
  request.chunk = book();
  request.step = cursor_.step;
  request.first = step_ ? step_->lanes.size() : 1;
  request.second = members_.index() | std::uint64_t{members_.workers()} << 32;
  request.version = members_.arena().generation();
  request.flags = static_cast<std::uint32_t>(want);
  const auto start = system_clock().now();
  for (;;) {
    const Header answer = client_.call(request, {}, body, deadline);
    if (answer.status == Status::kDone) {
      waited_ += std::chrono::duration<double>(system_clock().now() - start).count();
      return answer;
    }
    members_.arena().throw_if_superseded();
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout,
                  fmt::format("the lanes of step {} that other workers compute do not come", cursor_.step + 1));
  }
}

void ParameterServer::begin_step(const data::StepPlan& plan) {
  MUSTER_CHECK(plan.at.step == cursor_.step, "a plan for another step");
  members_.enter_step(static_cast<std::int64_t>(plan.at.step));
  cursor_ = plan.at;
  step_ = plan;
  waited_ = 0;
  skipped_ = false;
  norm_ = 0;
}

std::vector<std::size_t> ParameterServer::expected_lanes(const data::StepPlan& plan) const {
  std::vector<std::size_t> lanes;
  for (std::size_t lane = members_.index(); lane < plan.lanes.size(); lane += members_.workers())
    lanes.push_back(lane);
  return lanes;
}

std::optional<std::size_t> ParameterServer::claim() {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before claim()");
  members_.arena().throw_if_superseded();
  const Deadline deadline = Deadline::after(kLeaseTimeout);
  // Lanes of a worker that was lost are anybody's.
  const bool own_only = synchronous() && options_.claims == Claims::kStatic &&
                        members_.arena().generation() <= HostMembers::kFirstGeneration;
  const Header granted = lease(own_only ? Want::kOwnLane : Want::kLane, {}, deadline);
  if (static_cast<Grant>(granted.flags) != Grant::kLane) return std::nullopt;
  leased_version_ = granted.version;
  if (!synchronous() || pulled_ != cursor_.step) pull(synchronous(), deadline);
  if (synchronous()) pulled_ = cursor_.step;
  return granted.lane;
}

// All chunks and the buffers, as they are now; or, `exact`, with all steps before this one.
void ParameterServer::pull(bool exact, const Deadline& deadline) {
  Header request;
  request.verb = Verb::kPull;
  request.step = cursor_.step;
  request.flags = exact ? std::uint32_t{kExact} : 0;
  std::vector<Client::Ticket> tickets;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    request.chunk = chunk;
    tickets.push_back(client_.start(
        request, {}, std::as_writable_bytes(state_.parameters.subspan(chunks_[chunk].begin, chunks_[chunk].floats())),
        deadline));
  }
  request.chunk = book();
  tickets.push_back(client_.start(request, {}, buffers_, deadline));
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Header reply = client_.finish(tickets[i], deadline);
    if (i < versions_.size()) versions_[i] = reply.version;
  }
}

void ParameterServer::push_lane(std::size_t lane, double scale, bool kept, const Deadline& deadline) {
  std::vector<Client::Ticket> tickets;
  std::vector<std::vector<std::byte>> marked;  // bodies with marks
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const ServerChunk& place = chunks_[chunk];
    const auto marks = lane_.area.present.subspan(place.first_tensor, place.last_tensor - place.first_tensor);
    Header request;
    request.verb = Verb::kPush;
    request.chunk = chunk;
    request.step = cursor_.step;
    request.lane = static_cast<std::uint32_t>(lane);
    request.first = step_->lanes.size();
    request.version = versions_[chunk];
    request.rate = rate_;
    request.scale = scale;
    request.flags = kept ? std::uint32_t{kKept} : 0;
    std::span<const std::byte> body = std::as_bytes(lane_.area.gradient.subspan(place.begin, place.floats()));
    if (std::find(marks.begin(), marks.end(), 0) != marks.end()) {
      request.flags |= kSomeAbsent;
      std::vector<std::byte>& own = marked.emplace_back(body.begin(), body.end());
      const auto bytes = std::as_bytes(marks);
      own.insert(own.end(), bytes.begin(), bytes.end());
      body = own;
    }
    tickets.push_back(client_.start(request, body, {}, deadline));
  }
  for (const Client::Ticket ticket : tickets)
    client_.finish(ticket, deadline);
}

// Of a lane without an update: chunks know of it, as of all others, or they would wait for it for ever.
void ParameterServer::push_skip(std::size_t lane, const Deadline& deadline) {
  Header request;
  request.verb = Verb::kPush;
  request.step = cursor_.step;
  request.lane = static_cast<std::uint32_t>(lane);
  request.first = step_->lanes.size();
  request.flags = kSkipped;
  call_all(request, static_cast<std::uint32_t>(chunks_.size()), deadline);
}

// The same request to all chunks below `end`.
void ParameterServer::call_all(Header request, std::uint32_t end, const Deadline& deadline) {
  std::vector<Client::Ticket> tickets;
  for (request.chunk = 0; request.chunk < end; ++request.chunk)
    tickets.push_back(client_.start(request, {}, {}, deadline));
  for (const Client::Ticket ticket : tickets)
    client_.finish(ticket, deadline);
}

// The lane into the book: from now on it counts.
void ParameterServer::push_entry(std::size_t lane, const compute::LaneReport& report, std::uint32_t flags,
                                 const Deadline& deadline) {
  const LaneEntry entry{report, step_->lanes[lane].size()};
  body_.resize(sizeof entry + lane_.area.buffers.size());
  std::memcpy(body_.data(), &entry, sizeof entry);
  std::ranges::copy(lane_.area.buffers, body_.begin() + sizeof entry);
  Header request;
  request.verb = Verb::kPush;
  request.chunk = book();
  request.step = cursor_.step;
  request.lane = static_cast<std::uint32_t>(lane);
  request.first = step_->lanes.size();
  request.version = leased_version_;
  request.flags = flags;
  client_.call(request, body_, {}, deadline);
}

void ParameterServer::finish(std::size_t lane, const compute::LaneReport& report) {
  const Deadline deadline = Deadline::after(kCallTimeout);
  MUSTER_FAILPOINT("parameter_server.push.before");
  if (synchronous()) {
    push_lane(lane, 1, true, deadline);
    MUSTER_FAILPOINT("parameter_server.push.before_book");
    push_entry(lane, report, kKept, deadline);
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
  if (verdict.apply)
    push_lane(lane, verdict.gradient_scale, false, deadline);
  else
    push_skip(lane, deadline);
  MUSTER_FAILPOINT("parameter_server.push.before_book");
  push_entry(lane, report, verdict.apply ? 0 : std::uint32_t{kSkipped}, deadline);
}

// All lanes that count are there: this worker sums them up, decides and has it applied, the book last.
void ParameterServer::finish_step(const Header& granted, const Deadline& deadline) {
  const std::uint64_t mask = granted.second;
  Header request;
  request.verb = Verb::kRecords;
  request.step = cursor_.step;
  request.second = mask;
  std::vector<Client::Ticket> tickets;
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const compute::BlockRange blocks = chunks_[chunk].blocks;
    request.chunk = chunk;
    tickets.push_back(client_.start(
        request, {}, std::as_writable_bytes(std::span(records_).subspan(blocks.first, blocks.last - blocks.first)),
        deadline));
  }
  for (const Client::Ticket ticket : tickets)
    client_.finish(ticket, deadline);
  MUSTER_FAILPOINT("parameter_server.finish.before_apply");

  // Without its late lanes a step's gradient is the mean over the samples of those that came.
  const double share = static_cast<double>(step_->samples()) / static_cast<double>(granted.first);
  const std::optional<double> clip = clip_norm_ ? std::optional(*clip_norm_ / share) : std::nullopt;
  const compute::Verdict verdict = compute::judge_step(records_, clip);
  request.verb = Verb::kApply;
  request.rate = rate_;
  request.scale = share == 1 ? verdict.gradient_scale : verdict.gradient_scale * share;
  request.flags = verdict.apply ? 0 : std::uint32_t{kSkipped};
  call_all(request, static_cast<std::uint32_t>(chunks_.size()), deadline);
  MUSTER_FAILPOINT("parameter_server.finish.before_book");
  request.chunk = book();
  request.scale = verdict.gradient_norm * share;
  client_.call(request, {}, {}, deadline);
}

StepOutcome ParameterServer::outcome_of(const StepResult& result) const {
  StepOutcome outcome;
  outcome.applied = result.applied != 0;
  outcome.gradient_norm = result.gradient_norm;
  outcome.samples = result.samples;
  outcome.loss = result.samples > 0 ? result.loss_sum / static_cast<double>(result.samples) : 0;
  outcome.score = result.score;
  outcome.stop = result.stop != 0;
  outcome.change = result.change;
  outcome.waited = waited_;
  outcome.synchronized = false;
  return outcome;
}

StepOutcome ParameterServer::commit(const compute::UpdateRule& rule, Deadline deadline) {
  MUSTER_CHECK(step_.has_value(), "begin_step() comes before commit()");
  rate_ = rule.lr;
  clip_norm_ = rule.clip_norm;
  StepResult result;
  const std::span<std::byte> body = std::as_writable_bytes(std::span(&result, 1));
  for (;;) {
    const Header answer = lease(Want::kCommitted, body, deadline);
    if (static_cast<Grant>(answer.flags) != Grant::kFinish) break;
    finish_step(answer, deadline);
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
void ParameterServer::read_state(const Deadline& deadline) {
  for (std::uint32_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::vector<std::byte> bytes = client_.read_chunk(chunk, most_body_, deadline);
    unpack_chunk(chunks_[chunk], Shard::packed_part(bytes), state_, static_cast<std::size_t>(options_.slots));
  }
}

void ParameterServer::synchronize(Deadline deadline) {
  lease(Want::kSettled, {}, deadline);
  pull(true, deadline);
  if (members_.members().leads()) {
    read_state(deadline);
    // From here on nobody goes back behind this step: what is validated now is not validated again.
    if (plan_.snapshot_seconds > 0) call_all({.verb = Verb::kKeep}, plan_.chunk_count(), deadline);
  }
  // Nobody goes on before all have read.
  comm::Group group = members_.members().group;
  group.barrier(deadline);
}

// Of the server that has the book.
std::string ParameterServer::counted() {
  std::vector<std::byte> text(4096);
  Header request;
  request.verb = Verb::kReport;
  request.chunk = book();
  const Header reply = client_.call(request, {}, text, Deadline::after(kCallTimeout));
  return {reinterpret_cast<const char*>(text.data()), std::min<std::size_t>(reply.bytes, text.size())};
}

void validate(const StrategyOptions& options) {
  const ParameterServerOptions& wanted = options.parameter_server;
  const int workers = options.supervised ? options.supervised->seats : options.group.size();
  const int servers = wanted.servers == 0 ? workers : wanted.servers;
  if (wanted.copies < 1 || wanted.copies > servers)
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} copies of every chunk on {} servers", wanted.copies, servers),
                {}, "Copies are on different servers: use as many servers as copies, or more.");
  if (wanted.servers > 0 && !options.supervised)
    throw Error(ErrorKind::kUnsupported, "nobody has started parameter servers for this program", {},
                "Start it with muster train or muster run, or let every worker serve a part (servers = 0).");
  const bool backup = std::any_of(wanted.phases.begin(), wanted.phases.end(),
                                  [](const Phase& phase) { return phase.consistency == Consistency::kBackup; });
  if (backup && (wanted.backups < 1 || static_cast<std::size_t>(wanted.backups) >= options.lanes))
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("backup: {} of {} lanes of a step are not waited for", wanted.backups, options.lanes), {},
                "At least one, and fewer than there are lanes.");
  if (wanted.snapshot_seconds > 0 && wanted.folder.empty())
    throw Error(ErrorKind::kInvalidInput, "snapshots need a folder");
  if (wanted.snapshot_seconds > 0 && any_synchronous(wanted.phases))
    throw Error(ErrorKind::kInvalidInput, "snapshots of servers cannot go with steps that are taken together", {},
                "Use asp or ssp, or copies = 2, which loses nothing.");
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(StrategyOptions options) {
  validate(options);
  return std::make_unique<ParameterServer>(std::move(options));
}

}  // namespace muster::strategies
