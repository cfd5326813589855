// For each copy a queue of changes in order, sent as its window allows; an answer to a caller is held until every copy
// that counts has its change. A copy that was filled anew needs nothing of the queue.
#include "muster/strategies/parameter_server/server_copies.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kRetry{50};  // of a connection that failed
constexpr std::chrono::seconds kAnswer{1};       // of a reply that is there

}  // namespace

// What happens when all copies have a change: its call is answered, and so are those that were told of it.
struct ServerCopies::Pending {
  std::optional<std::uint64_t> handle;  // nothing: nobody called
  std::uint32_t chunk = 0;
  Reply reply{};
  std::vector<std::byte> body{};
  int waits_for = 0;
  bool stale = false;
  std::vector<std::shared_ptr<Pending>> followers{};
};

struct ServerCopies::Outgoing {
  std::shared_ptr<Pending> pending;  // nothing: nobody waits for it
  Request request;
  std::span<const std::byte> body;                // of the call, which is not answered before this is sent
  std::shared_ptr<std::vector<std::byte>> owned;  // or of a state that is sent in pieces
};

struct ServerCopies::Copy {
  std::unique_ptr<Connection> connection;
  std::deque<Outgoing> queue;
  std::deque<std::pair<Connection::Call, Outgoing>> flying;
  Clock::Instant failed{};
};

struct ServerCopies::Doubt {
  std::uint32_t server = 0;
  Outgoing sent;
};

ServerCopies::ServerCopies(ServerCopiesOptions options, const ServerMaps& maps, const ChunkStore& chunks)
    : options_(std::move(options)), maps_(maps), chunks_(chunks) {
}

ServerCopies::~ServerCopies() = default;

bool ServerCopies::pass_on(const Incoming& call, const Reply& reply) {
  const auto pending = std::make_shared<Pending>(Pending{call.handle, call.request.chunk, reply});
  for (const control::ChunkHolder& holder : map().chunks[call.request.chunk]) {
    if (holder.server == options_.number) continue;
    Outgoing out{pending, call.request, call.body, {}};
    out.request.passed_on_for = call.request.client;
    copies_[holder.server].queue.push_back(std::move(out));
    ++pending->waits_for;
  }
  return wait_for_copies(pending);
}

bool ServerCopies::wait_for_copies(const std::shared_ptr<Pending>& pending) {
  if (pending->waits_for == 0) return false;
  under_way_[pending->chunk].push_back(pending);
  return true;
}

bool ServerCopies::answer_behind(const Incoming& call, const Reply& reply, std::span<const std::byte> body) {
  const std::uint32_t chunk = call.request.chunk;
  const auto changes = under_way_.find(chunk);
  if (changes == under_way_.end()) return false;
  const auto follower = std::make_shared<Pending>(Pending{call.handle, chunk, reply, {body.begin(), body.end()}});
  for (const std::shared_ptr<Pending>& change : changes->second) {
    change->followers.push_back(follower);
    ++follower->waits_for;
  }
  return true;
}

bool ServerCopies::fill_all(const Incoming& call, const Reply& reply) {
  const std::uint32_t chunk = call.request.chunk;
  const auto pending = std::make_shared<Pending>(Pending{call.handle, chunk, reply});
  for (const control::ChunkHolder& holder : map().chunks[chunk]) {
    if (holder.server != options_.number) fill(holder.server, chunk, pending);
  }
  return wait_for_copies(pending);
}

void ServerCopies::fill(std::uint32_t server, std::uint32_t chunk, const std::shared_ptr<Pending>& pending) {
  const auto state = std::make_shared<std::vector<std::byte>>(chunks_.read(chunk));
  for (std::size_t at = 0; at == 0 || at < state->size(); at += options_.most_body) {
    Outgoing out;
    out.request.chunk = chunk;
    out.request.verb = FillRequest{at, state->size()};
    out.owned = state;
    out.body = std::span(*state).subspan(at, std::min(options_.most_body, state->size() - at));
    out.pending = pending;
    if (pending) ++pending->waits_for;
    copies_[server].queue.push_back(std::move(out));
  }
}

bool ServerCopies::busy() const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [](const auto& copy) { return !copy.second.queue.empty() || !copy.second.flying.empty(); });
}

void ServerCopies::exchange() {
  for (auto& [server, copy] : copies_) {
    if (copy.queue.empty() && copy.flying.empty()) continue;
    try {
      exchange_with(server, copy);
    } catch (const Error& error) {
      // kDamaged: what it says is no reply. That is its trouble, and no reason to end with it.
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout &&
          error.kind() != ErrorKind::kMismatch && error.kind() != ErrorKind::kDamaged)
        throw;
      // Lost, or not there yet: the next map tells. Until then nothing is acknowledged that it should have; what was
      // under way goes first when it is back.
      copy.connection.reset();
      copy.failed = system_clock().now();
      while (!copy.flying.empty()) {
        copy.queue.push_front(std::move(copy.flying.back().second));
        copy.flying.pop_back();
      }
    }
  }
}

void ServerCopies::exchange_with(std::uint32_t server, Copy& copy) {
  if (!copy.connection) {
    if (system_clock().now() - copy.failed < kRetry || map().servers[server].address.empty()) return;
    copy.connection = options_.connect(map().servers[server].address);
  }
  while (!copy.flying.empty() && copy.connection->done(copy.flying.front().first)) {
    const Reply reply = copy.connection->wait(copy.flying.front().first, Deadline::after(kAnswer));
    Outgoing sent = std::move(copy.flying.front().second);
    copy.flying.pop_front();
    if (reply.status == Status::kDone || reply.status == Status::kDuplicate || reply.status == Status::kLate)
      settle(sent.pending);
    else
      doubts_.push_back({server, std::move(sent)});
  }
  while (!copy.queue.empty()) {
    Outgoing& next = copy.queue.front();
    next.request.generation = map().generation;
    const std::optional<Connection::Call> call = copy.connection->try_start(next.request, next.body, {});
    if (!call) break;
    copy.flying.emplace_back(*call, std::move(next));
    copy.queue.pop_front();
    MUSTER_FAILPOINT("server.copy.sent");
  }
}

void ServerCopies::settle_doubts() {
  for (Doubt& doubt : std::exchange(doubts_, {})) {
    const std::uint32_t chunk = doubt.sent.request.chunk;
    if (is_primary(chunk) && map().holds(chunk, doubt.server)) {
      // It gets the chunk as it is now, which includes what it has missed, and all that comes after it.
      fill(doubt.server, chunk, doubt.sent.pending);
    } else if (doubt.sent.pending && !is_primary(chunk)) {
      doubt.sent.pending->stale = true;
    }
    settle(doubt.sent.pending);
  }
}

void ServerCopies::settle(const std::shared_ptr<Pending>& pending) {
  if (!pending || --pending->waits_for > 0) return;
  if (const auto changes = under_way_.find(pending->chunk); changes != under_way_.end()) {
    std::erase(changes->second, pending);
    if (changes->second.empty()) under_way_.erase(changes);
  }
  if (pending->stale) {
    pending->reply.status = Status::kStale;
    pending->body.clear();
  }
  if (pending->handle) {
    MUSTER_FAILPOINT("server.push.before_reply");
    options_.answer(*pending->handle, pending->reply, pending->body);
  }
  for (const std::shared_ptr<Pending>& follower : std::exchange(pending->followers, {})) {
    follower->stale = follower->stale || pending->stale;
    settle(follower);
  }
}

bool ServerCopies::same_process(const control::ServerMap& before, std::uint32_t server) const {
  return server < before.servers.size() && before.servers[server] == map().servers[server];
}

void ServerCopies::forget_changed_servers(const control::ServerMap& before) {
  for (auto& [server, copy] : copies_) {
    if (same_process(before, server) && !map().servers[server].address.empty()) continue;
    Copy gone = std::exchange(copy, Copy{});
    for (auto& [call, out] : gone.flying)
      settle(out.pending);
    for (Outgoing& out : gone.queue)
      settle(out.pending);
  }
}

void ServerCopies::refill(const control::ServerMap& before, std::uint32_t chunk) {
  const bool was_primary = before.primary(chunk) == options_.number;
  // Nobody has called; but what this server tells of the chunk waits for those that are counted on.
  const auto pending = std::make_shared<Pending>(Pending{std::nullopt, chunk});
  for (const control::ChunkHolder& holder : map().chunks[chunk]) {
    if (holder.server == options_.number) continue;
    const bool followed = was_primary && before.holds(chunk, holder.server) && same_process(before, holder.server);
    if (!followed) fill(holder.server, chunk, holder.filling ? nullptr : pending);
  }
  wait_for_copies(pending);
}

}  // namespace muster::strategies
