// A transport: point-to-point messages between ranks on several hosts, the only thing that Gloo and MPI are asked for.
// The collectives above it are ours (network_backend.h): theirs sum in an order of their own, which gives other bits
// (docs/collectives.md).
//
// Thread safety: one call at a time, but for abort().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/comm/backend.h"

namespace muster::comm {

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts to move bytes. Messages between two ranks in the same slot are matched in order; a message and its receive
  // have the same number of bytes (the layer above sees to it). Zero bytes are not sent. Memory and destruction: see
  // Transfer. Errors name the peer: kPeerLost, kTimeout.
  virtual std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) = 0;

  // As Backend's.
  virtual std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name,
                                           const Deadline& deadline) = 0;
  virtual void abort(int rank, const std::string& reason) = 0;
};

}  // namespace muster::comm
