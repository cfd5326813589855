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

bool is_loss(const Error& error) {
  return error.kind() == ErrorKind::kPeerLost || error.kind() == ErrorKind::kTimeout;
}

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)), maps_(options_.store) {
}
Client::~Client() = default;

void Client::find_servers(const Deadline& deadline) {
  maps_.wait_after(0, deadline);
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

void Client::pause(const Deadline& deadline, const std::string& reason) {
  if (deadline.passed()) throw Error(ErrorKind::kTimeout, reason);
  options_.interruption();
  system_clock().sleep_for(kPause);
  look_for_map();
}

Client::Ticket Client::start(const Header& request, std::span<const std::byte> body, std::span<std::byte> reply,
                             const Deadline& deadline) {
  const Ticket ticket = next_++;
  Flight& flight = flights_[ticket];
  flight.request = request;
  flight.request.client = options_.number;
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
  flight.request.generation = map().generation;
  Header request = flight.request;
  if ((request.verb == Verb::kPull || request.verb == Verb::kPullRows) && to_tell_.contains(request.chunk)) {
    request.flags |= kSeen;
    request.first = seen_[request.chunk];
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

void Client::note_version(const Header& reply) {
  const bool pulled = reply.verb == Verb::kPull || reply.verb == Verb::kPullRows;
  if (pulled && (reply.flags & kSeen) != 0) {
    // The server knows now. If it went back, its versions count on from where it is.
    to_tell_.erase(reply.chunk);
    seen_[reply.chunk] = reply.version;
  }
  if ((reply.verb != Verb::kPush && reply.verb != Verb::kPushRows) || reply.status == Status::kRefused) return;
  std::uint64_t& seen = seen_[reply.chunk];
  seen = std::max(seen, reply.version);
}

Header Client::finish(Ticket ticket, const Deadline& deadline) {
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

Header Client::answer_to(Ticket ticket, const Deadline& deadline) {
  Flight& flight = flights_.at(ticket);
  const auto waiting_for = [&] {
    const std::optional<std::uint32_t> server = map().primary(flight.request.chunk);
    const std::string failure = server ? links_[*server].failure : "";
    return fmt::format(
        "no answer to \"{}\" of chunk {} from {}{}{}", to_string(flight.request.verb), flight.request.chunk,
        server ? fmt::format("parameter server {}", *server) : "any parameter server: all copies are lost",
        failure.empty() ? "" : ": ", failure);
  };
  for (;;) {
    if (!flight.answer && flight.call) {
      try {
        collect(ticket, Deadline::after(std::min<std::chrono::nanoseconds>(kSlice, deadline.remaining())));
      } catch (const Error& error) {
        if (!is_loss(error)) throw;
        if (error.kind() == ErrorKind::kTimeout) {
          // The server lives and has not answered: perhaps it waits for another one that is lost.
          if (deadline.passed()) throw Error(ErrorKind::kTimeout, waiting_for());
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
      const Header answer = *flight.answer;
      const bool lease = answer.verb == Verb::kLease && answer.status == Status::kWait;
      if (answer.status == Status::kDone || answer.status == Status::kDuplicate || answer.status == Status::kLate ||
          lease) {
        note_version(answer);
        flights_.erase(ticket);
        return answer;
      }
      if (answer.status == Status::kRefused) {
        const std::size_t length = std::min<std::size_t>(answer.bytes, flight.reply.size());
        const std::string reason(reinterpret_cast<const char*>(flight.reply.data()), length);
        throw Error(ErrorKind::kMismatch,
                    fmt::format("parameter server {} refused \"{}\" of chunk {}: {}", flight.server,
                                to_string(answer.verb), answer.chunk, reason.empty() ? "no reason was given" : reason));
      }
      flight.answer.reset();
      // Read too slowly, or by an old map.
      if (answer.status == Status::kWait && answer.verb == Verb::kPull) {
        if (deadline.passed()) throw Error(ErrorKind::kTimeout, waiting_for());
        look_for_map();
      } else {
        pause(deadline, waiting_for());
      }
    }
    if (!flight.call && !try_send(flight, ticket, deadline)) pause(deadline, waiting_for());
  }
}

std::vector<std::byte> Client::read_chunk(std::uint32_t chunk, std::size_t most, const Deadline& deadline) {
  std::vector<std::byte> state;
  std::vector<std::byte> piece(most);
  std::uint64_t version = 0;
  Header request;
  request.verb = Verb::kRead;
  request.chunk = chunk;
  do {
    request.first = state.size();
    const Header reply = call(request, {}, piece, deadline);
    // From another server than the piece before, which has died: a state is read from one.
    if (request.first > 0 && reply.version != version) {
      state.clear();
      continue;
    }
    version = reply.version;
    state.insert(state.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(reply.bytes));
    request.second = reply.second;
    if (reply.bytes == 0) break;
  } while (state.size() < request.second);
  return state;
}

void Client::write_chunk(std::uint32_t chunk, std::span<const std::byte> state, std::size_t most,
                         const Deadline& deadline) {
  Header request;
  request.verb = Verb::kWrite;
  request.chunk = chunk;
  request.second = state.size();
  for (std::size_t at = 0; at == 0 || at < state.size(); at += most) {
    request.first = at;
    call(request, state.subspan(at, std::min(most, state.size() - at)), {}, deadline);
  }
}

}  // namespace muster::strategies
