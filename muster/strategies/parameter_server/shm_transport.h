// Calls through shared memory, for a parameter server and its clients on one host: no sockets, no serialisation.
//
// A request is copied once, into a slot that the server reads in place; so is a reply. A reply in place is copied once,
// by the client, from the server's memory. Calls of a client arrive in the order in which they were made. Who waits
// spins for some microseconds and then sleeps; only sleepers are rung. Each side may be killed at any instruction: a
// client then finds out within about 50 ms of waiting, a server goes on and never waits for a client. The layout:
// shm_seats.h. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

// Makes the memory, and lets processes of this user have it. Memory for bodies is taken only as far as they are used;
// but there must be enough for all: throws kResource, kInvalidInput (limits), kIo.
// A guard of reply_in_place must itself lie in memory(). Whoever changes what it guards raises it, then calls
// std::atomic_thread_fence(std::memory_order_release), then writes.
std::unique_ptr<Inbox> make_shm_inbox(const TransportLimits& limits, std::size_t memory_bytes);

// Throws kPeerLost (nobody serves there, or a process of another user), kMismatch (another process has that number, or
// it is no parameter server), kInvalidInput (no such number or address), kDamaged, kTimeout. After the process of a
// client was killed, the next one gets its place; calls that the server is still at occupy their part of the window
// until they are answered.
std::unique_ptr<Connection> connect_shm(const std::string& address, std::uint32_t client, const Deadline& deadline);

}  // namespace muster::strategies
