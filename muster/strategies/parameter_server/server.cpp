#include "muster/strategies/parameter_server/server.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/base/mutex.h"
#include "muster/base/process.h"
#include "muster/strategies/parameter_server/book.h"
#include "muster/strategies/parameter_server/client.h"
#include "muster/strategies/parameter_server/server_copies.h"
#include "muster/strategies/parameter_server/server_maps.h"
#include "muster/strategies/parameter_server/shm_transport.h"
#include "muster/strategies/parameter_server/snapshots.h"
#include "muster/strategies/parameter_server/table_shard.h"

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
        shard_(plan_, inbox_->memory(), options_.update),
        tables_(plan_),
        copies_(copies_options(), maps_),
        book_chunk_(static_cast<std::uint32_t>(shard_.chunks().size())),
        chunk_count_(plan_.chunk_count()) {
    if (keeps_snapshots() && options_.attempt > 0) begin_from_snapshots();
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
    const Turning turning(*this);
    while (!stopping_) {
      turns_.fetch_add(1, std::memory_order_relaxed);
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
      if (keeps_snapshots()) write_snapshots(now);
    }
  }

  std::optional<Progress> progress() {
    const MutexLock lock(thread_mutex_);
    timespec used{};
    if (!thread_clock_ || ::clock_gettime(*thread_clock_, &used) != 0) return std::nullopt;
    return Progress{turns_.load(std::memory_order_relaxed),
                    std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec)};
  }

 private:
  // While a thread is in run().
  class Turning {
   public:
    explicit Turning(State& state) : state_(state) {
      clockid_t clock = 0;
      const MutexLock lock(state_.thread_mutex_);
      if (::pthread_getcpuclockid(::pthread_self(), &clock) == 0) state_.thread_clock_ = clock;
    }
    Turning(const Turning&) = delete;
    Turning& operator=(const Turning&) = delete;
    ~Turning() {
      const MutexLock lock(state_.thread_mutex_);
      state_.thread_clock_.reset();
    }

   private:
    State& state_;
  };

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
            .read = [this](std::uint32_t chunk) { return read(chunk); },
            .answer =
                [this](std::uint64_t handle, Header reply, std::span<const std::byte> body) {
                  reply.generation = map().generation;
                  inbox_->reply(handle, reply, body);
                }};
  }

  // A chunk is of one of three kinds: a part of the layout, the book, a partition of a table.
  bool is_book(std::uint32_t chunk) const { return chunk == book_chunk_; }
  bool is_partition(std::uint32_t chunk) const { return chunk > book_chunk_; }
  bool has(std::uint32_t chunk) const {
    return is_book(chunk) ? book_.has_value() : is_partition(chunk) ? tables_.has(chunk) : shard_.has(chunk);
  }
  std::vector<std::byte> read(std::uint32_t chunk) const {
    return is_book(chunk) ? book_->read() : is_partition(chunk) ? tables_.read(chunk) : shard_.read(chunk);
  }
  void write(std::uint32_t chunk, std::span<const std::byte> state) {
    if (is_partition(chunk)) return tables_.write(chunk, state);
    if (!is_book(chunk)) return shard_.write(chunk, state);
    if (!book_) book_.emplace(plan_);
    book_->write(state);
  }
  std::uint64_t version(std::uint32_t chunk) const {
    return is_book(chunk) ? book_->version() : is_partition(chunk) ? tables_.version(chunk) : shard_.version(chunk);
  }
  std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const {
    if (is_book(chunk)) return 0;
    return is_partition(chunk) ? tables_.next_update(chunk, client) : shard_.next_update(chunk, client);
  }
  void drop(std::uint32_t chunk) {
    if (is_book(chunk)) return book_.reset();
    is_partition(chunk) ? tables_.drop(chunk) : shard_.drop(chunk);
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

  void reply(const Incoming& call, Status status, std::span<const std::byte> body = {}) {
    Header header = call.request;
    header.status = status;
    header.generation = map().generation;
    header.version = has(header.chunk) ? version(header.chunk) : 0;
    send(call.handle, header, body);
  }

  // The book tells of nothing that its copies do not have: who acts on what it said and outlives this server would
  // meet a book that has never heard of it.
  void send(std::uint64_t handle, const Header& header, std::span<const std::byte> body) {
    const bool tells = is_book(header.chunk) && header.status == Status::kDone;
    if (!tells || !copies_.answer_behind(handle, header, body)) inbox_->reply(handle, header, body);
  }

  void refuse(const Incoming& call, const std::string& reason) {
    reply(call, Status::kRefused, std::as_bytes(std::span(reason)));
  }

  void answer(Incoming call) {
    Header& request = call.request;
    // Transports say who calls. Of what a server passes on, it says whose it was.
    std::optional<std::uint32_t> copied_by;
    if ((request.flags & kCopied) != 0) {
      if (request.client < plan_.workers) return refuse(call, "only servers copy to each other");
      copied_by = request.client - plan_.workers;
      request.client = request.flags >> kClientShift;
      request.flags &= (std::uint32_t{1} << kClientShift) - 1;
    }
    if (request.generation > map().generation) look_for_map(system_clock().now());
    if (request.generation > map().generation) return reply(call, Status::kWait);
    if (request.generation < map().generation) return reply(call, Status::kStale);
    if (request.chunk >= chunk_count_) return refuse(call, "there is no such chunk");
    // One that was the primary of the chunk by an earlier map may still have something to send.
    const bool wanted = copied_by
                            ? map().holds(request.chunk, options_.number) && map().primary(request.chunk) == copied_by
                            : is_primary(request.chunk);
    if (!wanted) return reply(call, Status::kStale);
    if (request.verb == Verb::kWrite || request.verb == Verb::kFill) return take_piece(call);
    if (!has(request.chunk)) {
      // Of a job that begins it will come; of a server that was lost it will not.
      const bool lost = options_.attempt > 0 && map().copies == 1;
      return lost ? refuse(call, "it was lost with its server, and there is no snapshot") : reply(call, Status::kWait);
    }
    const bool of_rows = request.verb == Verb::kPullRows || request.verb == Verb::kPushRows;
    const bool of_all = request.verb == Verb::kRead || request.verb == Verb::kReport || request.verb == Verb::kKeep;
    if (!of_all && of_rows != is_partition(request.chunk)) return refuse(call, "rows are in tables, and only there");
    switch (request.verb) {
      case Verb::kPull:
        return pull(call);
      case Verb::kPullRows:
        return pull_rows(call);
      case Verb::kPushRows:
        return change(call, tables_.push(request, call.body));
      case Verb::kPush:
        return change(call, is_book(request.chunk) ? book_->push(request, call.body) : shard_.push(request, call.body));
      case Verb::kApply:
        return change(call, is_book(request.chunk) ? book_->apply(request) : shard_.apply(request));
      case Verb::kRecords:
        return give_records(call);
      case Verb::kRead:
        return give_piece(call);
      case Verb::kLease:
        if (!is_book(request.chunk)) return refuse(call, "leases are in the book");
        waiting_.push_back({call, system_clock().now()});
        return;
      case Verb::kReport:
        return report(call);
      case Verb::kReopen:
        return reopen(call);
      case Verb::kKeep:
        if (keeps_snapshots()) write_down(request.chunk);
        return reply(call, Status::kDone);
      default:
        return refuse(call, fmt::format("a server does not \"{}\"", to_string(request.verb)));
    }
  }

  void pull(const Incoming& call) {
    count_loss(call.request);
    if (is_book(call.request.chunk)) {
      if ((call.request.flags & kExact) != 0 && book_->floor() < call.request.step) return reply(call, Status::kWait);
      return reply(call, Status::kDone, book_->buffers());
    }
    if ((call.request.flags & kExact) != 0 && shard_.floor(call.request.chunk) < call.request.step)
      return reply(call, Status::kWait);
    const Shard::View view = shard_.view(call.request.chunk);
    Header header = call.request;
    header.status = Status::kDone;
    header.generation = map().generation;
    header.version = view.version;
    inbox_->reply_in_place(call.handle, header, std::as_bytes(view.parameters), *view.guard, view.limit);
  }

  void pull_rows(const Incoming& call) {
    count_loss(call.request);
    const std::optional<std::span<const float>> rows = tables_.pull(call.request, call.body);
    rows ? reply(call, Status::kDone, std::as_bytes(*rows)) : refuse(call, "no keys, or too many at once");
  }

  void give_records(const Incoming& call) {
    if (is_book(call.request.chunk)) return refuse(call, "the book has no gradients");
    const std::vector<compute::BlockSum> records = shard_.records(call.request);
    if (records.empty()) return refuse(call, "lanes of this step are missing");
    reply(call, Status::kDone, std::as_bytes(std::span(records)));
  }

  void change(const Incoming& call, Status status);

  // A state that comes in pieces: `first` is where in it this one stands, `second` how long it is.
  void take_piece(const Incoming& call) {
    const Header& request = call.request;
    if (request.first > request.second || call.body.size() > request.second - request.first)
      return refuse(call, "a piece lies outside of its state");
    std::vector<std::byte>& state = arriving_[request.chunk];
    if (request.first == 0) state.clear();
    if (state.size() != request.first) return refuse(call, "a piece of a state is missing");
    state.insert(state.end(), call.body.begin(), call.body.end());
    if (state.size() < request.second) return reply(call, Status::kDone);
    try {
      write(request.chunk, state);
    } catch (const Error& error) {
      arriving_.erase(request.chunk);
      return refuse(call, error.message());
    }
    arriving_.erase(request.chunk);
    // Else a server that is lost at once would begin from what it had of the chunk before, or from nothing.
    if (keeps_snapshots()) write_down(request.chunk);
    if (request.verb == Verb::kFill) {
      lacking_.erase(request.chunk);
      losses_.erase(request.chunk);  // what was loaded when it held the chunk before is not what it has now
      say_if_filled();
      return reply(call, Status::kDone);
    }
    Header header = request;
    header.version = version(request.chunk);
    if (!copies_.fill_all(call, header)) reply(call, Status::kDone);
  }

  void give_piece(const Incoming& call) {
    // All pieces are of one state, whatever is pushed meanwhile.
    Reading& reading = readings_[call.request.client];
    if (call.request.first == 0 || reading.chunk != call.request.chunk || reading.state.empty())
      reading = {call.request.chunk, version(call.request.chunk), read(call.request.chunk)};
    const std::vector<std::byte>& state = reading.state;
    if (call.request.first > state.size()) return refuse(call, "the state is shorter");
    const std::span<const std::byte> rest = std::span(state).subspan(call.request.first);
    Header header = call.request;
    header.status = Status::kDone;
    header.generation = map().generation;
    header.version = reading.version;
    header.second = state.size();
    const std::size_t piece = std::min(rest.size(), plan_.limits().most_body);
    send(call.handle, header, rest.first(piece));
    if (piece == rest.size()) readings_.erase(call.request.client);
  }

  // Leases that could not be given wait for the book to change, but not for long.
  void answer_waiting() {
    const auto now = system_clock().now();
    std::erase_if(waiting_, [&](const Waiting& waiting) {
      const Header& request = waiting.call.request;
      if (!book_ || !is_primary(book_chunk_)) {
        reply(waiting.call, Status::kStale);
        return true;
      }
      std::optional<Book::Answer> answer = book_->lease(request);
      if (!answer && now - waiting.since < kLongAnswer) return false;
      if (!answer) {
        reply(waiting.call, Status::kWait);
        return true;
      }
      answer->header.verb = request.verb;
      answer->header.chunk = request.chunk;
      answer->header.client = request.client;
      answer->header.step = request.step;
      answer->header.generation = map().generation;
      std::span<const std::byte> body;
      if (answer->result) body = std::as_bytes(std::span(&*answer->result, 1));
      write_events();
      send(waiting.call.handle, answer->header, body);
      return true;
    });
  }

  void report(const Incoming& call) {
    Json json{{"server", options_.number}, {"attempt", options_.attempt}, {"generation", map().generation}};
    std::uint64_t lost = 0;
    for (const auto& [chunk, loss] : losses_)
      lost += loss.most;
    if (is_book(call.request.chunk)) {
      // Of the whole job: updates that were in the book and had to be made again, and those that it lost itself.
      const auto own = losses_.find(book_chunk_);
      lost = book_->counts().again + (own == losses_.end() ? 0 : own->second.most);
    }
    json["lost_updates"] = lost;
    if (book_) {
      const BookCounts& counts = book_->counts();
      json["updates"] = counts.updates - counts.again;  // of a lane that was lost and came again the last one counts
      json["dropped"] = counts.dropped;
      json["repeated"] = counts.repeated;
      json["skipped"] = counts.skipped;
      json["staleness"] = counts.staleness;
      json["floor"] = book_->floor();
    }
    const std::string text = json.dump();
    Header header = call.request;
    header.status = Status::kDone;
    header.generation = map().generation;
    header.version = version(header.chunk);
    header.id = next_update(header.chunk, header.client);
    send(call.handle, header, std::as_bytes(std::span(text)));
  }

  // --- Maps.

  void change_map(const control::ServerMap& before) {
    const control::ServerMap& now = map();
    copies_.forget_changed_servers(before);
    lacking_.clear();
    for (std::uint32_t chunk = 0; chunk < now.chunks.size(); ++chunk) {
      if (!now.holds(chunk, options_.number)) {
        drop(chunk);
        continue;
      }
      for (const control::ChunkHolder& holder : now.chunks[chunk]) {
        if (holder.server == options_.number && holder.filling && !had(before, chunk)) lacking_.insert(chunk);
      }
      if (is_primary(chunk) && has(chunk)) copies_.refill(before, chunk);
    }
    say_if_filled();
  }

  // Whether this server had the chunk by the map before.
  bool had(const control::ServerMap& before, std::uint32_t chunk) const {
    return before.holds(chunk, options_.number) && has(chunk);
  }

  void say_if_filled() {
    const std::vector<std::uint32_t> filling = map().filling();
    if (!lacking_.empty() || said_ == map().generation) return;
    if (std::find(filling.begin(), filling.end(), options_.number) == filling.end()) return;
    said_ = map().generation;
    options_.store->set(control::filled_key(map().generation, options_.number), "1");
  }

  // --- What was lost, and what is kept for that case.

  struct Loss {
    std::uint64_t restored = 0;  // version
    std::uint64_t most = 0;      // updates that a client was told of and that are gone
  };

  void count_loss(const Header& request) {
    if ((request.flags & kSeen) == 0) return;
    const auto loss = losses_.find(request.chunk);
    if (loss == losses_.end() || request.first <= loss->second.restored) return;
    loss->second.most = std::max(loss->second.most, request.first - loss->second.restored);
    options_.tell(fmt::format("server {}: {} acknowledged updates of chunk {} are lost, since version {}",
                              options_.number, loss->second.most, request.chunk, loss->second.restored));
  }

  bool keeps_snapshots() const { return plan_.snapshot_seconds > 0; }

  // What was written down at different times becomes one state by way of the book: of the lanes that are in it, those
  // that some chunk has not got are taken out and computed again, before anybody finds this server.
  void begin_from_snapshots() {
    ServerMaps maps(options_.store);
    maps.look();
    // With copies a chunk comes from one that has it as it is.
    if (maps.current().copies > 1) return;
    std::vector<std::uint32_t> restored;
    for (Snapshot& snapshot : read_snapshots(plan_.folder, options_.number)) {
      // One that has moved to another server since is not this one's any more.
      if (maps.current().primary(snapshot.chunk) != options_.number) continue;
      write(snapshot.chunk, snapshot.state);
      losses_[snapshot.chunk] = {version(snapshot.chunk), 0};
      if (shard_.has(snapshot.chunk)) restored.push_back(snapshot.chunk);
    }
    if (restored.empty() || any_synchronous(plan_.phases)) return;
    std::optional<Client> client;
    for (const std::uint32_t chunk : restored) {
      ByteWriter lanes;
      shard_.lanes(chunk).save(lanes);
      const std::vector<std::byte> body = lanes.take();
      if (maps.current().primary(book_chunk_) == options_.number) {
        if (book_) book_->reopen(body);
        continue;
      }
      if (!client)
        client.emplace(ClientOptions{plan_.workers + options_.number, options_.store, options_.connect, [] {}});
      client->find_servers(Deadline::after(options_.patience));
      client->call({.verb = Verb::kReopen, .chunk = book_chunk_}, body, {}, Deadline::after(options_.patience));
    }
    options_.tell(fmt::format("server {}: {} parts of the model are as they were last written down", options_.number,
                              restored.size()));
  }

  void reopen(const Incoming& call) {
    if (call.request.client < plan_.workers || !is_book(call.request.chunk))
      return refuse(call, "only servers reopen, and the book");
    Status status = Status::kRefused;
    try {
      status = book_->reopen(call.body);
    } catch (const Error& error) {
      return refuse(call, error.message());
    }
    change(call, status);
  }

  // One chunk at a time, so that nobody waits long.
  void write_snapshots(Clock::Instant now) {
    if (now < next_snapshot_) return;
    const std::uint32_t chunk = snapshot_chunk_;
    snapshot_chunk_ = (chunk + 1) % chunk_count_;
    if (snapshot_chunk_ == 0)
      next_snapshot_ = now + std::chrono::duration_cast<Clock::Instant::duration>(
                                 std::chrono::duration<double>(plan_.snapshot_seconds));
    if (has(chunk) && is_primary(chunk)) write_down(chunk);
  }

  void write_down(std::uint32_t chunk) {
    try {
      write_snapshot(plan_.folder, options_.number, {chunk, read(chunk)});
    } catch (const Error& error) {
      options_.tell(fmt::format("server {}: no snapshot of chunk {}: {}", options_.number, chunk, error.message()));
    }
  }

  // Before anybody else learns of them: who dies then leaves a log that has at least what the copies have.
  void write_events() {
    if (!book_ || plan_.event_log.empty()) return;
    const std::string events = book_->take_events();
    // A copy would say everything again.
    if (events.empty() || !is_primary(book_chunk_)) return;
    // With who says it: a primary that is lost before anybody else has learned of something leaves it to the next one
    // to say it once more.
    std::ofstream log(plan_.event_log, std::ios::app);
    std::istringstream lines(events);
    for (std::string line; std::getline(lines, line);)
      log << fmt::format("{{\"server\":{},\"attempt\":{},{}\n", options_.number, options_.attempt, line.substr(1));
  }

  struct Reading {
    std::uint32_t chunk = 0;
    std::uint64_t version = 0;
    std::vector<std::byte> state{};
  };
  struct Waiting {
    Incoming call;
    Clock::Instant since;
  };

  // Constant after construction.
  const ServerOptions options_;
  const ServerPlan plan_;
  std::atomic<bool> stopping_ = false;
  // How the thread in run() gets on, for others.
  std::atomic<std::uint64_t> turns_ = 0;
  Mutex thread_mutex_;
  std::optional<clockid_t> thread_clock_ MUSTER_GUARDED_BY(thread_mutex_);
  const control::ServerMap no_map_{};
  // What moves.
  ServerMaps maps_;
  bool entered_ = false;  // this process is in the maps
  std::unique_ptr<Inbox> inbox_;
  Shard shard_;
  TableShard tables_;
  ServerCopies copies_;
  const std::uint32_t book_chunk_;
  const std::uint32_t chunk_count_;
  std::optional<Book> book_;
  std::map<std::uint32_t, Reading> readings_;                 // by client: states of which it has not read all pieces
  std::map<std::uint32_t, std::vector<std::byte>> arriving_;  // states of which pieces are missing
  std::set<std::uint32_t> lacking_;                           // chunks that this server is to be filled with
  std::vector<Waiting> waiting_;
  std::uint64_t said_ = 0;  // generation in which this server said that it is filled
  Clock::Instant looked_{};
  std::map<std::uint32_t, Loss> losses_;
  std::uint32_t snapshot_chunk_ = 0;
  Clock::Instant next_snapshot_{};
};

// Applied here: it is acknowledged when the copies have it, too.
void Server::State::change(const Incoming& call, Status status) {
  Header header = call.request;
  header.status = status;
  header.generation = map().generation;
  header.version = version(header.chunk);
  if (is_book(header.chunk)) write_events();
  const bool applied = status == Status::kDone || status == Status::kLate || status == Status::kDuplicate;
  // What was seen before may be on its way to a copy still: the answer goes behind it.
  if (!applied || (call.request.flags & kCopied) != 0) {
    MUSTER_FAILPOINT("server.copy.before_reply");
    return inbox_->reply(call.handle, header, {});
  }
  MUSTER_FAILPOINT("server.push.before_copies");
  if (!copies_.pass_on(call, header)) inbox_->reply(call.handle, header, {});
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
