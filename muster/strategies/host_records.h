// What the workers of a host write down of a step before it counts (the ledger), for the other hosts: it goes to them
// with the heads of the lanes, so that no host commits a step of which it has not got what all others wrote down.
//
// Thread safety: one thread. No torch here.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::strategies {

class HostRecords {
 public:
  virtual ~HostRecords() = default;

  // By the first worker of a host, when all of its host's lanes of a step are done: what was written there since the
  // call before. Throws kIo.
  virtual std::vector<std::uint8_t> news() = 0;
  // By the first worker of another host: what news() gave there. The step is committed here only after it has returned.
  // Throws kIo, kResource, kMismatch.
  virtual void keep(std::span<const std::uint8_t> news) = 0;
};

}  // namespace muster::strategies
