// A client of the parameter servers: it finds the server of a chunk, keeps calls under way, and sends them again when a
// server is lost or the map has changed, until they have taken effect once.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/strategies/parameter_server/client_options.h"
#include "muster/strategies/parameter_server/patience.h"
#include "muster/strategies/parameter_server/server_maps.h"
#include "muster/strategies/parameter_server/server_plan.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

class Client {
 public:
  using Ticket = std::uint64_t;

  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Waits until there are servers. Throws kTimeout when the deadline has passed and nobody watches them.
  void find_servers(const Deadline& deadline);

  // Starts a call of `chunk`; waits only while too many are under way. `body` and `reply` must stay until it is
  // finished: it may have to be sent again.
  Ticket start(std::uint32_t chunk, const Verb& verb, std::span<const std::byte> body, std::span<std::byte> reply,
               const Deadline& deadline);
  // The reply: kDone, kDuplicate, kLate, or kWait of a lease. Throws kMismatch with the server's reason when it was
  // refused, kTimeout when the deadline has passed and nobody watches the servers; the call is forgotten then.
  Reply finish(Ticket ticket, const Deadline& deadline);
  // Nothing is written to the call's `reply` from now on, whether it takes effect or not.
  void forget(Ticket ticket);
  Reply call(std::uint32_t chunk, const Verb& verb, std::span<const std::byte> body, std::span<std::byte> reply,
             const Deadline& deadline) {
    return finish(start(chunk, verb, body, reply, deadline), deadline);
  }

  // A chunk's whole state, in pieces of `most` bytes.
  std::vector<std::byte> read_chunk(std::uint32_t chunk, std::size_t most, const Deadline& deadline);
  void write_chunk(std::uint32_t chunk, std::span<const std::byte> state, std::size_t most, const Deadline& deadline);

  const control::ServerMap& map() const { return maps_.current(); }

 private:
  struct Flight {
    Request request;
    std::span<const std::byte> body;
    std::span<std::byte> reply;
    std::uint32_t server = 0;
    std::optional<Connection::Call> call{};  // under way
    std::optional<Reply> answer{};
  };
  struct Link {
    std::unique_ptr<Connection> connection;
    control::ServerSeat seat;
    std::deque<Ticket> order;  // under way, oldest first
    std::string failure{};     // why the last try to reach it came to nothing
  };

  bool try_send(Flight& flight, Ticket ticket, const Deadline& deadline);
  void collect(Ticket ticket, const Deadline& deadline);
  Reply answer_to(Ticket ticket, const Deadline& deadline);
  Link& link_to(std::uint32_t server);
  void drop(std::uint32_t server);
  void pause(Patience& patience, const std::string& reason);
  void look_for_map();
  void note_version(Request& request, const Reply& reply);

  const ClientOptions options_;
  ServerMaps maps_;
  std::map<std::uint32_t, Link> links_;
  std::map<Ticket, Flight> flights_;
  Ticket next_ = 1;
  std::map<std::uint32_t, std::uint64_t> seen_;  // by chunk: the highest version that was acknowledged
  std::set<std::uint32_t> to_tell_;              // chunks whose server is another one since
};

}  // namespace muster::strategies
