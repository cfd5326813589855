// A parameter server: one shard of a job's chunks, served until told to stop. A process of its own, or a thread of a
// worker.
//
// It finds the other servers through the job's store: "map/<generation>" (control/server_map.h). As the primary of a
// chunk it orders the updates, sends each to the chunk's copies and answers when all of them have it: what was
// acknowledged survives the loss of all holders but one. What comes by an older map than its own is refused; what comes
// by a later one makes it look for that map. Nothing in here waits for another process: whoever is slow, stopped or
// dead holds up only what depends on it, until the next map.
//
// Thread safety: run() is one thread; the others may be called from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/strategies/parameter_server/own_update.h"
#include "muster/strategies/parameter_server/server_plan.h"

namespace muster::strategies {

class Connection;  // transport.h
class Inbox;

struct ServerOptions {
  std::uint32_t number = 0;
  std::uint32_t attempt = 0;  // how many servers had this number before
  std::shared_ptr<comm::Store> store;
  // Makes the way in for `memory_bytes` of chunks; empty: through shared memory.
  std::function<std::unique_ptr<Inbox>(const TransportLimits& limits, std::size_t memory_bytes)> make_inbox{};
  // A connection to the server at `address` as client `client`; empty: through shared memory.
  std::function<std::unique_ptr<Connection>(const std::string& address, std::uint32_t client, const Deadline& deadline)>
      connect{};
  // Applied to a chunk by every gradient that is pushed, instead of the plan's optimizer; empty: that one.
  OwnUpdate update{};
  // How long the job's first worker may take to leave the plan, and the server of the book to answer; no limit while
  // somebody watches them (patience.h).
  std::chrono::nanoseconds patience = std::chrono::seconds(120);
  std::function<bool()> watched = [] { return false; };
  // What happened, for people.
  std::function<void(const std::string&)> tell = [](const std::string&) {};
};

class Server {
 public:
  // Waits for the plan, takes its memory, loads its snapshot if one was lost, and says where it is to be found.
  // Throws kTimeout, kResource, kDamaged.
  explicit Server(ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  const std::string& address() const;
  // Serves until stop().
  void run();
  void stop();

  // How far run() has come: turns of its loop, what the processor has done for it, and whether its thread sleeps now
  // (neither runs nor waits for a processor or a disk). While run() runs.
  struct Progress {
    std::uint64_t turns = 0;
    std::chrono::nanoseconds processor_time{};
    bool asleep = false;
  };
  std::optional<Progress> progress() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace muster::strategies
