// The connections of one Gloo transport and its one failure. Internal to gloo_transport.cpp.
//
// Slots from 2^63 on are its own:
//   hello   proves to a peer that this rank read the store
//   notice  the last message to a peer: why this rank closes the connection. After a failure it is in the store too,
//           because it cannot pass a long message that is half-way: without it a peer would take this rank for the
//           lost one.
//   death   a receive that no message ever answers. Gloo tells it when the connection ends, which it forgets to tell
//           messages that are half-way.
//   token   a send that is started at once and asked for only when a deadline has passed: Gloo's thread of a peer that
//           lives then sends it without further help. It says whom that peer waits for, so that everybody finds the
//           rank at the end of the chain.
//
// Gloo closes every connection when one of its waits times out, so none of ours does: a watch thread looks every 10 ms,
// or earlier when a deadline is nearer, and interrupts the wait.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/comm/gloo_transport.h"

namespace gloo::transport {
class Context;
class Device;
class UnboundBuffer;
}  // namespace gloo::transport

namespace muster::comm {

using GlooBuffer = gloo::transport::UnboundBuffer;

// A random number that a rank leaves in the store and wants to hear from its peers.
using GlooNonce = std::array<char, 16>;

enum class Direction { kSend, kReceive };

// Thread safety: one call at a time, but for fail(). Transfers share it: it outlives them.
class GlooMesh {
 public:
  explicit GlooMesh(GlooOptions options);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  const GlooOptions& options() const { return options_; }

  // Once, before anything else. Throws as make_gloo_transport.
  void connect();

  // Starts a message; every message ends with forget(). Throws the failure.
  std::unique_ptr<GlooBuffer> start(Direction direction, int peer, std::uint64_t slot, void* data, std::size_t bytes);
  // Whether the message is done; false when the deadline passes before, which harms nothing. A message that arrived
  // before a failure is done. Throws the failure.
  bool wait(GlooBuffer& buffer, Direction direction, int peer, const Deadline& deadline);
  void forget(GlooBuffer& buffer);

  // The failure for a message of `peer` that is not done at its deadline: names the rank that `peer` waits for, if it
  // does. Takes up to 0.2 s when a peer does not respond.
  Error give_up(int peer, Direction direction);
  // Ends all waits, now and later, with `error`, tells the peers that `rank` is the cause, and closes the connections.
  // Only the first failure counts; gives that one. From any thread.
  Error fail(int rank, const Error& error);
  // Says good-bye and closes the connections. Peers take it as a loss only if they wait for something of this rank.
  void leave();

 private:
  struct Peer;
  struct Notice;
  struct Token;
  struct Exchange;
  struct Loss {
    int rank;
    Error error;
  };

  void exchange_addresses(std::vector<std::string>& published);
  void connect_pairs(const std::vector<std::string>& published);
  void greet();
  // Asks the peers whom they wait for; no answer is no entry. By rank.
  std::vector<std::optional<int>> ask_peers();

  void watch();
  void interrupt_late_wait() MUSTER_REQUIRES(mutex_);
  // Asks the interruption of the options.
  void fail_if_interrupted();
  // Whether the peer's connection has ended; reads its notice then.
  bool ended(Peer& peer) MUSTER_REQUIRES(mutex_);
  // What the end of a connection means; nothing when the peer said good-bye.
  std::optional<Loss> loss_of(const Peer& peer) const MUSTER_REQUIRES(mutex_);
  // The error to throw after Gloo threw `gloo_text`: the cause, not the symptom.
  Error explain(int peer, const std::string& gloo_text);
  void interrupt_messages() MUSTER_REQUIRES(mutex_);
  void tell_peers(const Notice& notice) MUSTER_REQUIRES(closing_);
  // The same notice in the store, for peers whom the message cannot reach.
  void leave_note(const Notice& notice) MUSTER_REQUIRES(closing_);
  void read_note(Peer& peer) MUSTER_REQUIRES(mutex_);
  std::string note_key(int rank) const;
  void close_connections() MUSTER_REQUIRES(closing_);

  // Constant once connected.
  const GlooOptions options_;
  const GlooNonce nonce_;
  std::unique_ptr<Token> token_;  // sent as it is when a peer asks for it
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<std::unique_ptr<Peer>> peers_;  // all ranks but this one

  // Held while connections are being closed. Lock order: closing_, then mutex_.
  Mutex closing_;
  Mutex mutex_;
  Condition changed_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  bool connecting_ MUSTER_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ MUSTER_GUARDED_BY(mutex_);
  std::set<GlooBuffer*> messages_ MUSTER_GUARDED_BY(mutex_);
  // The wait under way, and until when.
  GlooBuffer* waiting_ MUSTER_GUARDED_BY(mutex_) = nullptr;
  std::optional<Deadline> waiting_until_ MUSTER_GUARDED_BY(mutex_);

  std::thread watcher_;
};

}  // namespace muster::comm
