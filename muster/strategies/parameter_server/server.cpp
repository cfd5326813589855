// One thread and one loop: calls, copies, maps, snapshots in turn, and none of them waits. A call that cannot be
// answered yet is kept and looked at again when something has changed.
#include "muster/strategies/parameter_server/server.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/json.h"
#include "muster/base/process.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/server_chunks.h"
#include "muster/strategies/parameter_server/server_copies.h"
#include "muster/strategies/parameter_server/server_maps.h"
#include "muster/strategies/parameter_server/server_snapshots.h"
#include "muster/strategies/parameter_server/server_turns.h"
#include "muster/strategies/parameter_server/shm_transport.h"
#include "muster/strategies/parameter_server/state_pieces.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kLook{20};        // for a new map, while nothing asks for it
constexpr std::chrono::milliseconds kLongAnswer{20};  // a lease that cannot be given yet is answered with "wait"
constexpr std::chrono::microseconds kIdle{2000};
constexpr std::chrono::seconds kConnectTimeout{1};

}  // namespace

class Server::State {
 public:
  explicit State(ServerOptions options)
      : options_(std::move(options)),
        plan_(get_plan(*options_.store, Deadline::after(options_.patience))),
        maps_(options_.store),
        inbox_(make_inbox()),
        chunks_(plan_, inbox_->memory(), options_.update),
        snapshots_(plan_, options_.number, chunks_, options_.tell),
        copies_(copies_options(), maps_, chunks_) {
    if (snapshots_.kept() && options_.attempt > 0) begin_from_snapshots();
    const ProcessId self = this_process();
    options_.store->set(control::server_process_key(options_.number, options_.attempt),
                        fmt::format("{} {}", self.pid, self.start_time));
    options_.store->set(control::server_key(options_.number, options_.attempt), inbox_->address());
  }

  const std::string& address() const { return inbox_->address(); }
  void stop() {
    stopping_ = true;
    inbox_->wake();
  }

  void run() {
    const FailpointScope scope(static_cast<int>(options_.number), -1, static_cast<int>(options_.attempt));
    const ServerTurns::Scope turning(turns_);
    while (!stopping_) {
      turns_.take();
      const bool busy = copies_.busy() || !waiting_.empty();
      if (std::optional<Incoming> call = inbox_->next(Deadline::after(busy ? kBusy : kIdle))) {
        answer(*call);
      }
      copies_.exchange();
      if (copies_.in_doubt()) {
        look_for_map(system_clock().now());
        copies_.settle_doubts();
      }
      answer_waiting();
      const auto now = system_clock().now();
      if (now - looked_ > kLook) look_for_map(now);
      snapshots_.write_next(now, map());
    }
  }

  std::optional<Progress> progress() { return turns_.progress(); }

 private:
  static constexpr std::chrono::microseconds kBusy{50};

  std::unique_ptr<Inbox> make_inbox() const {
    const std::size_t bytes = Shard::memory_bytes(plan_);
    return options_.make_inbox ? options_.make_inbox(plan_.limits(), bytes) : make_shm_inbox(plan_.limits(), bytes);
  }
  std::unique_ptr<Connection> connect(const std::string& address) const {
    const std::uint32_t client = plan_.workers + options_.number;
    const Deadline deadline = Deadline::after(kConnectTimeout);
    return options_.connect ? options_.connect(address, client, deadline) : connect_shm(address, client, deadline);
  }

  ServerCopiesOptions copies_options() {
    return {.number = options_.number,
            .most_body = plan_.limits().most_body,
            .connect = [this](const std::string& address) { return connect(address); },
            .answer =
                [this](std::uint64_t handle, Reply reply, std::span<const std::byte> body) {
                  reply.generation = map().generation;
                  inbox_->reply(handle, reply, body);
                }};
  }

  const control::ServerMap& map() const { return entered_ ? maps_.current() : no_map_; }
  bool is_primary(std::uint32_t chunk) const { return map().primary(chunk) == options_.number; }

  void look_for_map(Clock::Instant now) {
    looked_ = now;
    for (;;) {
      const control::ServerMap before = map();
      if (!maps_.advance()) return;
      // Maps before the first that has this process tell of one that had its number before.
      const std::vector<control::ServerSeat>& seats = maps_.current().servers;
      entered_ = entered_ || (options_.number < seats.size() && seats[options_.number].address == address());
      if (entered_) change_map(before);
    }
  }

  // --- Calls.

  Reply reply_of(const Incoming& call, Status status) const {
    const std::uint32_t chunk = call.request.chunk;
    const bool there = chunk < chunks_.count() && chunks_.has(chunk);
    return {.status = status, .generation = map().generation, .version = there ? chunks_.version(chunk) : 0};
  }

  void reply(const Incoming& call, Status status, std::span<const std::byte> body = {}) {
    send(call, reply_of(call, status), body);
  }

  // The book tells of nothing that its copies do not have: who acts on what it said and outlives this server would
  // meet a book that has never heard of it.
  void send(const Incoming& call, const Reply& reply, std::span<const std::byte> body) {
    const bool tells = call.request.chunk == chunks_.book_chunk() && reply.status == Status::kDone;
    if (!tells || !copies_.answer_behind(call, reply, body)) inbox_->reply(call.handle, reply, body);
  }

  void refuse(const Incoming& call, const std::string& reason) {
    reply(call, Status::kRefused, std::as_bytes(std::span(reason)));
  }

  void answer(Incoming call) {
    Request& request = call.request;
    // Transports say who calls. Of what a server passes on, it says whose it was.
    std::optional<std::uint32_t> copied_by;
    if (request.passed_on_for || std::holds_alternative<FillRequest>(request.verb)) {
      if (request.client < plan_.workers) return refuse(call, "only servers copy to each other");
      copied_by = request.client - plan_.workers;
      request.client = request.passed_on_for.value_or(request.client);
      if (request.client >= plan_.workers + plan_.servers) return refuse(call, "there is no such client");
    }
    if (request.generation > map().generation) look_for_map(system_clock().now());
    if (request.generation > map().generation) return reply(call, Status::kWait);
    if (request.generation < map().generation) return reply(call, Status::kStale);
    if (request.chunk >= chunks_.count()) return refuse(call, "there is no such chunk");
    // One that was the primary of the chunk by an earlier map may still have something to send.
    const bool wanted = copied_by
                            ? map().holds(request.chunk, options_.number) && map().primary(request.chunk) == copied_by
                            : is_primary(request.chunk);
    if (!wanted) return reply(call, Status::kStale);
    const bool brings =
        std::holds_alternative<WriteRequest>(request.verb) || std::holds_alternative<FillRequest>(request.verb);
    if (!brings && !chunks_.has(request.chunk)) {
      // Of a job that begins it will come; of a server that was lost it will not.
      const bool lost = options_.attempt > 0 && map().copies == 1;
      return lost ? refuse(call, "it was lost with its server, and there is no snapshot") : reply(call, Status::kWait);
    }
    const std::optional<ChunkKind> kind = kind_of(request.verb);
    if (kind && *kind != chunks_.kind(request.chunk))
      return refuse(call,
                    fmt::format("chunk {} is not of the kind that knows \"{}\"", request.chunk, name_of(request.verb)));
    std::visit([&](const auto& verb) { take(call, verb); }, request.verb);
  }

  // One for each verb; the chunk is there, and of the kind that understands it.

  void take(const Incoming& call, const PullRequest& pull) {
    if (pull.seen_version) snapshots_.count_loss(call.request.chunk, *pull.seen_version);
    Shard& shard = chunks_.parameters();
    if (pull.settled_step && shard.floor(call.request.chunk) < *pull.settled_step) return reply(call, Status::kWait);
    const Shard::View view = shard.view(call.request.chunk);
    inbox_->reply_in_place(call.handle, reply_of(call, Status::kDone), std::as_bytes(view.parameters), *view.guard,
                           view.limit);
  }

  void take(const Incoming& call, const PullBuffersRequest& pull) {
    if (pull.seen_version) snapshots_.count_loss(call.request.chunk, *pull.seen_version);
    if (pull.settled_step && book().floor() < *pull.settled_step) return reply(call, Status::kWait);
    reply(call, Status::kDone, book().buffers());
  }

  void take(const Incoming& call, const PullRowsRequest& pull) {
    if (pull.seen_version) snapshots_.count_loss(call.request.chunk, *pull.seen_version);
    const std::optional<std::span<const float>> rows = chunks_.tables().pull(call.request.chunk, call.body);
    rows ? reply(call, Status::kDone, std::as_bytes(*rows)) : refuse(call, "no keys, or too many at once");
  }

  void take(const Incoming& call, const PushLaneRequest& push) {
    change(call, chunks_.parameters().push(call.request.chunk, push, call.body));
  }
  void take(const Incoming& call, const PushUpdateRequest& push) {
    change(call, chunks_.parameters().push(call.request.chunk, call.request.client, push, call.body));
  }
  void take(const Incoming& call, const PushRowsRequest& push) {
    change(call, chunks_.tables().push(call.request.chunk, call.request.client, push, call.body));
  }
  void take(const Incoming& call, const PushEntryRequest& push) {
    change(call, book().push(call.request.client, push, call.body));
  }
  void take(const Incoming& call, const ApplyRequest& verdict) {
    change(call, chunks_.parameters().apply(call.request.chunk, verdict));
  }
  void take(const Incoming& call, const CloseRequest& verdict) {
    change(call, book().close(call.request.client, verdict));
  }

  void take(const Incoming& call, const RecordsRequest& wanted) {
    const std::vector<compute::BlockSum> records = chunks_.parameters().records(call.request.chunk, wanted);
    if (records.empty()) return refuse(call, "lanes of this step are missing");
    reply(call, Status::kDone, std::as_bytes(std::span(records)));
  }

  void take(const Incoming& call, const LeaseRequest&) { waiting_.push_back({call, system_clock().now()}); }

  void take(const Incoming& call, const ReopenRequest&) {
    if (call.request.client < plan_.workers) return refuse(call, "only servers reopen the book");
    Status status = Status::kRefused;
    try {
      status = book().reopen(call.body);
    } catch (const Error& error) {
      return refuse(call, error.message());
    }
    change(call, status);
  }

  void take(const Incoming& call, const ReadRequest& wanted) {
    const std::optional<StatesRead::Piece> piece =
        states_read_.piece(call.request.client, chunks_, call.request.chunk, wanted.offset, plan_.limits().most_body);
    if (!piece) return refuse(call, "the state is shorter");
    Reply reply = reply_of(call, Status::kDone);
    reply.version = piece->version;
    reply.details = ReadReply{piece->total};
    send(call, reply, piece->bytes);
    if (piece->last) states_read_.forget(call.request.client);
  }

  void take(const Incoming& call, const WriteRequest& piece) {
    if (!take_piece(call, piece.offset, piece.total)) return;
    const Reply done = reply_of(call, Status::kDone);
    if (!copies_.fill_all(call, done)) send(call, done, {});
  }

  void take(const Incoming& call, const FillRequest& piece) {
    if (!take_piece(call, piece.offset, piece.total)) return;
    lacking_.erase(call.request.chunk);
    snapshots_.forget(call.request.chunk);  // what was loaded when it held the chunk before is not what it has now
    say_if_filled();
    reply(call, Status::kDone);
  }

  // True when the chunk was written; else the call is answered.
  bool take_piece(const Incoming& call, std::uint64_t offset, std::uint64_t total) {
    const std::uint32_t chunk = call.request.chunk;
    try {
      const std::optional<std::vector<std::byte>> state = states_arriving_.add(chunk, offset, total, call.body);
      if (!state) {
        reply(call, Status::kDone);
        return false;
      }
      chunks_.write(chunk, *state);
    } catch (const Error& error) {
      refuse(call, error.message());
      return false;
    }
    // Else a server that is lost at once would begin from what it had of the chunk before, or from nothing.
    snapshots_.write(chunk);
    return true;
  }

  void take(const Incoming& call, const KeepRequest&) {
    snapshots_.write(call.request.chunk);
    reply(call, Status::kDone);
  }

  void take(const Incoming& call, const ReportRequest&) {
    const std::uint32_t chunk = call.request.chunk;
    const std::string text = report_of(chunk);
    Reply reply = reply_of(call, Status::kDone);
    reply.details = ReportReply{chunks_.next_update(chunk, call.request.client)};
    send(call, reply, std::as_bytes(std::span(text)));
  }

  void change(const Incoming& call, Status status);

  // Leases that could not be given wait for the book to change, but not for long.
  void answer_waiting() {
    const auto now = system_clock().now();
    std::erase_if(waiting_, [&](const Waiting& waiting) { return answer_lease(waiting.call, now - waiting.since); });
  }

  // True when it was answered.
  bool answer_lease(const Incoming& call, Clock::Instant::duration waited) {
    if (!has_book() || !is_primary(chunks_.book_chunk())) {
      reply(call, Status::kStale);
      return true;
    }
    std::optional<LeaseReply> granted;
    try {
      granted = book().lease(call.request.client, std::get<LeaseRequest>(call.request.verb));
    } catch (const Error& error) {
      refuse(call, error.message());
      return true;
    }
    if (!granted && waited < kLongAnswer) return false;
    if (!granted) {
      reply(call, Status::kWait);
      return true;
    }
    Reply reply = reply_of(call, Status::kDone);
    reply.details = *granted;
    write_events();
    send(call, reply, {});
    return true;
  }

  std::string report_of(std::uint32_t chunk) {
    Json json{{"server", options_.number}, {"attempt", options_.attempt}, {"generation", map().generation}};
    // Asked of the book: of the whole job. Updates that were in it and had to be made again, and those that it lost.
    json["lost_updates"] =
        chunk == chunks_.book_chunk() ? book().counts().again + snapshots_.lost_of(chunk) : snapshots_.lost();
    if (has_book()) {
      const BookCounts& counts = book().counts();
      json["updates"] = counts.updates - counts.again;  // of a lane that was lost and came again the last one counts
      json["dropped"] = counts.dropped;
      json["repeated"] = counts.repeated;
      json["skipped"] = counts.skipped;
      json["staleness"] = counts.staleness;
      json["floor"] = book().floor();
    }
    return json.dump();
  }

  // --- Maps.

  void change_map(const control::ServerMap& before) {
    const control::ServerMap& now = map();
    copies_.forget_changed_servers(before);
    lacking_.clear();
    for (std::uint32_t chunk = 0; chunk < now.chunks.size(); ++chunk) {
      if (!now.holds(chunk, options_.number)) {
        chunks_.drop(chunk);
        continue;
      }
      for (const control::ChunkHolder& holder : now.chunks[chunk]) {
        if (holder.server == options_.number && holder.filling && !had(before, chunk)) lacking_.insert(chunk);
      }
      if (is_primary(chunk) && chunks_.has(chunk)) copies_.refill(before, chunk);
    }
    say_if_filled();
  }

  // Whether this server had the chunk by the map before.
  bool had(const control::ServerMap& before, std::uint32_t chunk) const {
    return before.holds(chunk, options_.number) && chunks_.has(chunk);
  }

  void say_if_filled() {
    const std::vector<std::uint32_t> filling = map().filling();
    if (!lacking_.empty() || said_ == map().generation) return;
    if (std::find(filling.begin(), filling.end(), options_.number) == filling.end()) return;
    said_ = map().generation;
    options_.store->set(control::filled_key(map().generation, options_.number), "1");
  }

  // --- What was lost, and what is kept for that case.

  // What was written down at different times becomes one state by way of the book: of the lanes that are in it, those
  // that some chunk has not got are taken out and computed again, before anybody finds this server.
  void begin_from_snapshots() {
    ServerMaps maps(options_.store);
    maps.look();
    // With copies a chunk comes from one that has it as it is.
    if (maps.current().copies > 1) return;
    const std::vector<std::uint32_t> restored = snapshots_.restore(maps.current());
    if (restored.empty() || any_synchronous(plan_.phases)) return;
    std::optional<Client> client;
    for (const std::uint32_t chunk : restored) {
      ByteWriter lanes;
      chunks_.parameters().lanes(chunk).save(lanes);
      const std::vector<std::byte> body = lanes.take();
      if (maps.current().primary(chunks_.book_chunk()) == options_.number) {
        if (has_book()) book().reopen(body);
        continue;
      }
      if (!client)
        client.emplace(ClientOptions{.number = plan_.workers + options_.number,
                                     .store = options_.store,
                                     .connect = options_.connect,
                                     .watched = options_.watched});
      client->find_servers(Deadline::after(options_.patience));
      client->call(chunks_.book_chunk(), ReopenRequest{}, body, {}, Deadline::after(options_.patience));
    }
    options_.tell(fmt::format("server {}: {} parts of the model are as they were last written down", options_.number,
                              restored.size()));
  }

  // Before anybody else learns of them: who dies then leaves a log that has at least what the copies have.
  void write_events() {
    if (!has_book() || plan_.event_log.empty()) return;
    const std::string events = book().take_events();
    // A copy would say everything again.
    if (events.empty() || !is_primary(chunks_.book_chunk())) return;
    // With who says it: a primary that is lost before anybody else has learned of something leaves it to the next one
    // to say it once more.
    std::ofstream log(plan_.event_log, std::ios::app);
    std::istringstream lines(events);
    for (std::string line; std::getline(lines, line);)
      log << fmt::format("{{\"server\":{},\"attempt\":{},{}\n", options_.number, options_.attempt, line.substr(1));
  }

  bool has_book() const { return chunks_.has(chunks_.book_chunk()); }
  Book& book() { return chunks_.book().book(); }

  struct Waiting {
    Incoming call;
    Clock::Instant since;
  };

  // Constant after construction.
  const ServerOptions options_;
  const ServerPlan plan_;
  std::atomic<bool> stopping_ = false;
  ServerTurns turns_;
  const control::ServerMap no_map_{};
  // What moves.
  ServerMaps maps_;
  bool entered_ = false;  // this process is in the maps
  std::unique_ptr<Inbox> inbox_;
  ServerChunks chunks_;
  ServerSnapshots snapshots_;
  ServerCopies copies_;
  StatesRead states_read_;
  StatesArriving states_arriving_;
  std::set<std::uint32_t> lacking_;  // chunks that this server is to be filled with
  std::vector<Waiting> waiting_;
  std::uint64_t said_ = 0;  // generation in which this server said that it is filled
  Clock::Instant looked_{};
};

// Applied here: it is acknowledged when the copies have it, too.
void Server::State::change(const Incoming& call, Status status) {
  const Reply reply = reply_of(call, status);
  if (call.request.chunk == chunks_.book_chunk()) write_events();
  const bool applied = status == Status::kDone || status == Status::kLate || status == Status::kDuplicate;
  // What was seen before may be on its way to a copy still: the answer goes behind it.
  if (!applied || call.request.passed_on_for) {
    MUSTER_FAILPOINT("server.copy.before_reply");
    return inbox_->reply(call.handle, reply, {});
  }
  MUSTER_FAILPOINT("server.push.before_copies");
  if (!copies_.pass_on(call, reply)) inbox_->reply(call.handle, reply, {});
}

Server::Server(ServerOptions options) : state_(std::make_unique<State>(std::move(options))) {
}
Server::~Server() = default;

const std::string& Server::address() const {
  return state_->address();
}
void Server::run() {
  state_->run();
}
void Server::stop() {
  state_->stop();
}
std::optional<Server::Progress> Server::progress() const {
  return state_->progress();
}

}  // namespace muster::strategies
