// Between our types and those of proto/shards.proto. For the sources of this folder and for tests: it brings protobuf's
// headers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "muster/data/piece_door.h"
#include "shards.pb.h"

namespace muster::control {

constexpr int kMostShardRequestBytes = 128 * 1024;
constexpr int kMostShardReplyBytes = static_cast<int>(data::kMostShardRead) + 64 * 1024;
constexpr int kMostExpectedPieces = 4096;  // of a call
constexpr int kMostPlacedRuns = 4096;      // of a lane

void to_wire(const data::ShardCatalog& catalog, v1::CatalogReply& reply);
// Throws kDamaged, with `where`.
data::ShardCatalog from_wire(const v1::CatalogReply& reply, const std::string& where);

void to_wire(std::span<const std::byte> bytes, v1::ReadShardReply& reply);
// Throws kDamaged, with `where`: not as many bytes as were asked for, or another checksum.
std::vector<std::byte> from_wire(const v1::ReadShardReply& reply, std::uint64_t bytes, const std::string& where);

void to_wire(const data::DepotView& view, v1::OpenDepotReply& reply);
// Throws kDamaged, with `where`.
data::DepotView from_wire(const v1::OpenDepotReply& reply, const std::string& where);

}  // namespace muster::control
