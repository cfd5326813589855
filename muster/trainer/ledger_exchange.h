// The ledger of a job of several hosts, whose workers each write on the disk of their host: brought together, so that
// every host has all of it, whichever is lost.
//
// With every step, before it can be committed, each host tells the others what its workers have recorded of it
// (strategies/host_records.h); so what a host has committed it can prove by itself. When workers meet, and before a
// checkpoint of workers whose steps carry no records, all is compared and what one lacks it gets from another: hosts
// that come late get the ledger from its beginning. Hosts that see one folder have it all already. No torch here.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "muster/data/ledger_parts.h"
#include "muster/strategies/host_records.h"
#include "muster/strategies/membership.h"

namespace muster::trainer {

class LedgerExchange final : public strategies::HostRecords {
 public:
  // All workers of all hosts together, while nobody records anything. `folder`: the ledger of this worker's host.
  // Afterwards every host has what any of them has. Throws kPeerLost, kTimeout, and as LedgerParts.
  void settle(const std::filesystem::path& folder, const strategies::Members& members);

  // Between two meetings, by the first worker of a host.
  std::vector<std::uint8_t> news() override;
  void keep(std::span<const std::uint8_t> news) override;

 private:
  std::optional<data::LedgerParts> parts_;
  std::map<std::uint64_t, std::uint64_t> told_;  // by id: bytes that all hosts have, or were sent
};

}  // namespace muster::trainer
