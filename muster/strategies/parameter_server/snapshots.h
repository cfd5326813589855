// Snapshots of a server's chunks on disk: what a server that was lost, and whose chunks have no copies, begins from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace muster::strategies {

struct Snapshot {
  std::uint32_t chunk = 0;
  std::vector<std::byte> state;
};

// Whole or not there, with a checksum. Throws kIo, kResource.
void write_snapshot(const std::filesystem::path& folder, std::uint32_t server, const Snapshot& snapshot);

// All whole ones of this server; those that are damaged are left out.
std::vector<Snapshot> read_snapshots(const std::filesystem::path& folder, std::uint32_t server);

}  // namespace muster::strategies
