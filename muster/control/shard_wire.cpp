// Field by field. What comes from another host is looked at before it is used: names, sizes, checksums. Names are never
// paths.
#include "muster/control/shard_wire.h"

#include <fmt/format.h>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::uint64_t kMostPieceBytes = data::kMostShardRead;

}  // namespace

void to_wire(const data::ShardCatalog& catalog, v1::CatalogReply& reply) {
  reply.set_print(catalog.print);
  for (const data::ShardEntry& shard : catalog.shards) {
    v1::ShardEntry& entry = *reply.add_shards();
    entry.set_name(shard.name);
    entry.set_bytes(shard.bytes);
  }
}

data::ShardCatalog from_wire(const v1::CatalogReply& reply, const std::string& where) {
  if (static_cast<std::size_t>(reply.shards_size()) > data::kMostCatalogShards)
    throw Error(ErrorKind::kDamaged, fmt::format("a catalog of {} shards", reply.shards_size()), where);
  data::ShardCatalog catalog;
  catalog.print = reply.print();
  for (const v1::ShardEntry& entry : reply.shards())
    catalog.shards.push_back({entry.name(), entry.bytes()});
  data::check_catalog(catalog, where);
  return catalog;
}

void to_wire(std::span<const std::byte> bytes, v1::ReadShardReply& reply) {
  reply.set_data(bytes.data(), bytes.size());
  reply.set_crc32c(crc32c(bytes));
}

std::vector<std::byte> from_wire(const v1::ReadShardReply& reply, std::uint64_t bytes, const std::string& where) {
  const std::string& text = reply.data();
  if (text.size() != bytes)
    throw Error(ErrorKind::kDamaged, fmt::format("{} bytes came, {} were asked for", text.size(), bytes), where);
  const auto given = std::as_bytes(std::span(text));
  std::vector<std::byte> data(given.begin(), given.end());
  if (crc32c(data) != reply.crc32c())
    throw Error(ErrorKind::kDamaged, "its bytes have another checksum than it says", where);
  return data;
}

void to_wire(const data::DepotView& view, v1::OpenDepotReply& reply) {
  to_wire(view.catalog, *reply.mutable_catalog());
  reply.set_cache(view.cache.string());
  reply.set_piece_bytes(view.piece_bytes);
}

data::DepotView from_wire(const v1::OpenDepotReply& reply, const std::string& where) {
  data::DepotView view;
  view.catalog = from_wire(reply.catalog(), where);
  view.cache = reply.cache();
  view.piece_bytes = reply.piece_bytes();
  if (view.piece_bytes == 0 || view.piece_bytes > kMostPieceBytes)
    throw Error(ErrorKind::kDamaged, fmt::format("pieces of {} bytes", view.piece_bytes), where);
  return view;
}

}  // namespace muster::control
