// Calls have ids of their own, so that sending one again is harmless. After a loss the map is read again, calls under
// way go to whoever has the chunk now, and answers by an old map are not believed.
#include "muster/strategies/parameter_server/client.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/strategies/parameter_server/shm_transport.h"

namespace muster::strategies {
namespace {

constexpr std::chrono::milliseconds kSlice{100};  // of a wait, after which the map is looked at
constexpr std::chrono::milliseconds kPause{2};
constexpr std::chrono::seconds kConnectTimeout{1};

// Where a request tells a server that came back what the client was told before; null for one that does not.
std::optional<std::uint64_t>* seen_version_of(Verb& verb) {
  return std::visit(
      [](auto& what) -> std::optional<std::uint64_t>* {
        if constexpr (requires { what.seen_version; })
          return &what.seen_version;
        else
          return nullptr;
      },
      verb);
}

bool is_push(const Verb& verb) {
  return std::holds_alternative<PushLaneRequest>(verb) || std::holds_alternative<PushUpdateRequest>(verb) ||
         std::holds_alternative<PushRowsRequest>(verb) || std::holds_alternative<PushEntryRequest>(verb);
}

bool is_loss(const Error& error) {
  return error.kind() == ErrorKind::kPeerLost || error.kind() == ErrorKind::kTimeout;
}

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)), maps_(options_.store) {
}
Client::~Client() = default;

void Client::find_servers(const Deadline& deadline) {
  Patience patience(deadline, options_.watched);
  patience.until_over([&](const Deadline& until) {
    options_.interruption();
    maps_.wait_after(0, until);
  });
}

Client::Link& Client::link_to(std::uint32_t server) {
  Link& link = links_[server];
  const control::ServerSeat& seat = map().servers[server];
  if (link.connection && link.seat == seat) return link;
  drop(server);
  if (seat.address.empty()) throw Error(ErrorKind::kPeerLost, fmt::format("server {} is lost", server));
  const Deadline deadline = Deadline::after(kConnectTimeout);
  link.connection = options_.connect ? options_.connect(seat.address, options_.number, deadline)
                                     : connect_shm(seat.address, options_.number, deadline);
  link.seat = seat;
  link.failure.clear();
  return link;
}

// Calls that were under way are sent again when they are asked for.
void Client::drop(std::uint32_t server) {
  Link& link = links_[server];
  for (const Ticket ticket : link.order)
    flights_.at(ticket).call.reset();
  link.order.clear();
  link.connection.reset();
}

void Client::look_for_map() {
  const control::ServerMap before = map();
  if (!maps_.look()) return;
  for (std::uint32_t chunk = 0; chunk < map().chunks.size(); ++chunk) {
    const std::optional<std::uint32_t> server = map().primary(chunk);
    if (!server || chunk >= before.chunks.size()) continue;
    if (before.primary(chunk) != server || !(before.servers[*server] == map().servers[*server])) to_tell_.insert(chunk);
  }
}

void Client::pause(Patience& patience, const std::string& reason) {
  if (patience.is_over()) throw Error(ErrorKind::kTimeout, reason);
  options_.interruption();
  system_clock().sleep_for(kPause);
  look_for_map();
}

Client::Ticket Client::start(std::uint32_t chunk, const Verb& verb, std::span<const std::byte> body,
                             std::span<std::byte> reply, const Deadline& deadline) {
  const Ticket ticket = next_++;
  Flight& flight = flights_[ticket];
  flight.request.chunk = chunk;
  flight.request.verb = verb;
  flight.body = body;
  flight.reply = reply;
  try {
    try_send(flight, ticket, deadline);
  } catch (...) {
    forget(ticket);
    throw;
  }
  return ticket;
}

// False when the server cannot be reached now: finish() tries again.
bool Client::try_send(Flight& flight, Ticket ticket, const Deadline& deadline) {
  const std::optional<std::uint32_t> server = map().primary(flight.request.chunk);
  if (!server) return false;
  flight.server = *server;
  flight.answer.reset();
  Request& request = flight.request;
  request.generation = map().generation;
  if (std::optional<std::uint64_t>* const seen = seen_version_of(request.verb)) {
    seen->reset();
    if (to_tell_.contains(request.chunk)) *seen = seen_[request.chunk];
  }
  try {
    for (;;) {
      Link& link = link_to(*server);
      flight.call = link.connection->try_start(request, flight.body, flight.reply);
      if (flight.call) {
        link.order.push_back(ticket);
        return true;
      }
      MUSTER_CHECK(!link.order.empty(), "a window without calls under way is full");
      collect(link.order.front(), deadline);
    }
  } catch (const Error& error) {
    if (!is_loss(error)) throw;
    drop(*server);
    links_[*server].failure = error.message();
    return false;
  }
}

// Waits for the answer to a call that is under way.
void Client::collect(Ticket ticket, const Deadline& deadline) {
  Flight& flight = flights_.at(ticket);
  Link& link = links_.at(flight.server);
  flight.answer = link.connection->wait(*flight.call, deadline);
  flight.call.reset();
  std::erase(link.order, ticket);
}

void Client::note_version(Request& request, const Reply& reply) {
  const std::optional<std::uint64_t>* const told = seen_version_of(request.verb);
  if (told != nullptr && *told) {
    // The server knows now. If it went back, its versions count on from where it is.
    to_tell_.erase(request.chunk);
    seen_[request.chunk] = reply.version;
  }
  if (!is_push(request.verb)) return;
  std::uint64_t& seen = seen_[request.chunk];
  seen = std::max(seen, reply.version);
}

Reply Client::finish(Ticket ticket, const Deadline& deadline) {
  try {
    return answer_to(ticket, deadline);
  } catch (...) {
    forget(ticket);
    throw;
  }
}

void Client::forget(Ticket ticket) {
  const auto found = flights_.find(ticket);
  if (found == flights_.end()) return;
  if (found->second.call) drop(found->second.server);
  flights_.erase(ticket);
}

Reply Client::answer_to(Ticket ticket, const Deadline& deadline) {
  Flight& flight = flights_.at(ticket);
  Patience patience(deadline, options_.watched);
  const auto waiting_for = [&] {
    const std::optional<std::uint32_t> server = map().primary(flight.request.chunk);
    const std::string failure = server ? links_[*server].failure : "";
    return fmt::format(
        "no answer to \"{}\" of chunk {} from {}{}{}", name_of(flight.request.verb), flight.request.chunk,
        server ? fmt::format("parameter server {}", *server) : "any parameter server: all copies are lost",
        failure.empty() ? "" : ": ", failure);
  };
  for (;;) {
    if (!flight.answer && flight.call) {
      try {
        collect(ticket, Deadline::after(std::min<std::chrono::nanoseconds>(kSlice, patience.remaining())));
      } catch (const Error& error) {
        if (!is_loss(error)) throw;
        if (error.kind() == ErrorKind::kTimeout) {
          // The server lives and has not answered: perhaps it waits for another one that is lost.
          if (patience.is_over()) throw Error(ErrorKind::kTimeout, waiting_for());
          options_.interruption();
          look_for_map();
          if (map().primary(flight.request.chunk) == flight.server &&
              links_[flight.server].seat == map().servers[flight.server])
            continue;
        }
        drop(flight.server);
      }
    }
    if (flight.answer) {
      const Reply answer = *flight.answer;
      const Verb& verb = flight.request.verb;
      const bool lease = std::holds_alternative<LeaseRequest>(verb) && answer.status == Status::kWait;
      if (answer.status == Status::kDone || answer.status == Status::kDuplicate || answer.status == Status::kLate ||
          lease) {
        note_version(flight.request, answer);
        flights_.erase(ticket);
        return answer;
      }
      if (answer.status == Status::kRefused) {
        const std::size_t length = std::min<std::size_t>(answer.bytes, flight.reply.size());
        const std::string reason(reinterpret_cast<const char*>(flight.reply.data()), length);
        throw Error(ErrorKind::kMismatch,
                    fmt::format("parameter server {} refused \"{}\" of chunk {}: {}", flight.server, name_of(verb),
                                flight.request.chunk, reason.empty() ? "no reason was given" : reason));
      }
      flight.answer.reset();
      // Read too slowly, or by an old map.
      const bool pull = std::holds_alternative<PullRequest>(verb) || std::holds_alternative<PullBuffersRequest>(verb);
      if (answer.status == Status::kWait && pull) {
        if (patience.is_over()) throw Error(ErrorKind::kTimeout, waiting_for());
        options_.interruption();
        look_for_map();
      } else {
        pause(patience, waiting_for());
      }
    }
    if (!flight.call && !try_send(flight, ticket, Deadline::after(patience.remaining())))
      pause(patience, waiting_for());
  }
}

std::vector<std::byte> Client::read_chunk(std::uint32_t chunk, std::size_t most, const Deadline& deadline) {
  std::vector<std::byte> state;
  std::vector<std::byte> piece(most);
  std::uint64_t version = 0;
  std::uint64_t total = 0;
  do {
    const Reply reply = call(chunk, ReadRequest{state.size()}, {}, piece, deadline);
    // From another server than the piece before, which has died: a state is read from one.
    if (!state.empty() && reply.version != version) {
      state.clear();
      continue;
    }
    version = reply.version;
    state.insert(state.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(reply.bytes));
    total = details_of<ReadReply>(reply).total;
    if (reply.bytes == 0) break;
  } while (state.size() < total);
  return state;
}

void Client::write_chunk(std::uint32_t chunk, std::span<const std::byte> state, std::size_t most,
                         const Deadline& deadline) {
  for (std::size_t at = 0; at == 0 || at < state.size(); at += most)
    call(chunk, WriteRequest{at, state.size()}, state.subspan(at, std::min(most, state.size() - at)), {}, deadline);
}

}  // namespace muster::strategies
