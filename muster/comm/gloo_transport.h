// Gloo as a transport: messages between hosts over TCP.
//
// Only Gloo's point-to-point messages are used. What Gloo leaves to its users is done here: it binds to one named
// interface or address and never to all, ranks prove that they come from the same store, every wait ends at its
// deadline, and a rank that fails tells the others why before it closes its connections, so that all of them name the
// rank that was the cause. A peer's death is noticed in all waits, whoever they wait for, within some 10 ms where the
// system says so (its process ended) and at the deadline where it does not (its host is gone or it is stopped).
//
// The connections are not encrypted and Gloo does not survive garbage on them: use a network that only the job's hosts
// can reach. Ports are open while the ranks connect, not afterwards.
//
// Threads of a transport, asleep unless there is something to do: Gloo's own, and one that watches peers and deadlines.
// A message that was started cannot be taken back: destroying an unfinished transfer fails the transport, and asking
// test() of an unfinished one costs some 20 us, because Gloo can only be asked by waiting.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/deadline.h"
#include "muster/comm/store.h"
#include "muster/comm/transport.h"

namespace muster::comm {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // Where the ranks leave their addresses, under `name`. A name serves one group, once: rebuilt groups take a new one.
  std::shared_ptr<Store> store;
  std::string name = "gloo";
  // The network interface to talk through, "eth0" for one. Empty: the interface that has `address`.
  std::string interface;
  // A numeric address of this machine.
  std::string address = "127.0.0.1";
  // Until when all ranks must be connected.
  Deadline deadline = Deadline::after(std::chrono::seconds(30));
  // Called every 10 ms by a thread of the transport; what it throws ends every wait, now and later, and that of
  // connecting too. It is called until the transport is gone.
  std::function<void()> interruption{};
};

// Why a build has no Gloo, in words that end a sentence about it, and what to do.
struct MissingGloo {
  std::string reason;
  std::string remedy;
};

// Nothing in a build that has Gloo.
std::optional<MissingGloo> missing_gloo();

inline bool gloo_available() {
  return !missing_gloo();
}

// Connects the ranks; returns when this one is connected to all. A transport destroyed before the others are done with
// it does not disturb them, unless they wait for a message of it. Throws kInvalidInput (rank, size, interface,
// address), kTimeout and kPeerLost naming a rank, kMismatch (the name was used before, or ranks that are not of this
// group), kResource, kUnsupported (a build without Gloo).
std::unique_ptr<Transport> make_gloo_transport(const GlooOptions& options);

}  // namespace muster::comm
