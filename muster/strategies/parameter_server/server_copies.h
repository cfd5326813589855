// The copies of a server's chunks at other servers: each change goes to all of them, in order, and is answered when
// they have it.
//
// Nothing here waits. A copy that does not answer holds up what it should have, until it answers or a later map says
// that it is gone. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/control/server_map.h"
#include "muster/strategies/parameter_server/chunk_store.h"
#include "muster/strategies/parameter_server/server_maps.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

struct ServerCopiesOptions {
  std::uint32_t number = 0;   // of the server whose copies they are
  std::size_t most_body = 0;  // of a message
  std::function<std::unique_ptr<Connection>(const std::string& address)> connect;
  // A call may be answered now.
  std::function<void(std::uint64_t handle, const Reply& reply, std::span<const std::byte> body)> answer;
};

class ServerCopies {
 public:
  // `maps` and `chunks` outlive it.
  ServerCopies(ServerCopiesOptions options, const ServerMaps& maps, const ChunkStore& chunks);
  ServerCopies(const ServerCopies&) = delete;
  ServerCopies& operator=(const ServerCopies&) = delete;
  ~ServerCopies();

  // The change that a call made goes to all copies of its chunk, and `reply` to the caller when they have it; false if
  // there are none. The call's body is read until then.
  bool pass_on(const Incoming& call, const Reply& reply);
  // The same for a call that wrote a whole chunk: all copies get it as it is.
  bool fill_all(const Incoming& call, const Reply& reply);

  // An answer that tells of a chunk as it is goes out when the copies that count have it like that, too; false if they
  // do: it may go now. The body is copied.
  bool answer_behind(const Incoming& call, const Reply& reply, std::span<const std::byte> body);

  // What can be done now, without waiting.
  void exchange();
  bool busy() const;

  // Whether a copy did not take what it was sent: it had a later map than this server, or has not got the chunk. To be
  // settled when a newer map was looked for.
  bool in_doubt() const { return !doubts_.empty(); }
  void settle_doubts();

  // After a new map. Nobody waits any more for those who are gone; copies that are new, or that followed another
  // primary, get the chunk as it is.
  void forget_changed_servers(const control::ServerMap& before);
  void refill(const control::ServerMap& before, std::uint32_t chunk);

 private:
  struct Pending;
  struct Outgoing;
  struct Copy;
  struct Doubt;

  const control::ServerMap& map() const { return maps_.current(); }
  bool is_primary(std::uint32_t chunk) const { return map().primary(chunk) == options_.number; }
  bool same_process(const control::ServerMap& before, std::uint32_t server) const;
  bool wait_for_copies(const std::shared_ptr<Pending>& pending);
  void fill(std::uint32_t server, std::uint32_t chunk, const std::shared_ptr<Pending>& pending);
  void exchange_with(std::uint32_t server, Copy& copy);
  void settle(const std::shared_ptr<Pending>& pending);

  const ServerCopiesOptions options_;
  const ServerMaps& maps_;
  const ChunkStore& chunks_;
  std::map<std::uint32_t, Copy> copies_;                                      // by server
  std::map<std::uint32_t, std::vector<std::shared_ptr<Pending>>> under_way_;  // by chunk: changes that copies lack
  std::vector<Doubt> doubts_;
};

}  // namespace muster::strategies
