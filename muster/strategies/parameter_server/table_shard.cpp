// Around the tables: history of applied updates, state as bytes, and eviction, which happens after a number of pushes
// and never by the clock, so that copies of a partition come to the same rows.
#include "muster/strategies/parameter_server/table_shard.h"

#include <algorithm>

namespace muster::strategies {
namespace {

std::vector<std::byte> pack(const ChunkHistory& history, std::uint64_t looked_at, const SparseTable& table) {
  ByteWriter bytes;
  history.save(bytes);
  bytes.put(looked_at);
  bytes.put_all(std::span<const std::byte>(table.save()));
  return bytes.take();
}

}  // namespace

std::optional<std::span<const float>> TableShard::pull(std::uint32_t chunk, std::span<const std::byte> keys) {
  const SparseTable& table = held_.at(chunk).table;
  const std::size_t count = keys.size() / sizeof(std::int64_t);
  const std::size_t floats = count * table.options().width;
  if (keys.size() % sizeof(std::int64_t) != 0 || floats * sizeof(float) > most_body_) return std::nullopt;
  rows_.resize(std::max(rows_.size(), floats));
  const std::span<float> rows = std::span(rows_).first(floats);
  table.pull({reinterpret_cast<const std::int64_t*>(keys.data()), count}, rows);
  return rows;
}

Status TableShard::push(std::uint32_t chunk, std::uint32_t client, const PushRowsRequest& push,
                        std::span<const std::byte> body) {
  Held& held = held_.at(chunk);
  const std::size_t width = held.table.options().width;
  const std::size_t pair = sizeof(std::int64_t) + width * sizeof(float);
  AppliedSet& applied = held.history.own[client];
  if (push.over_below > push.update) return Status::kRefused;
  applied.close_below(push.over_below);
  if (body.size() % pair != 0 || push.update >= applied.floor() + AppliedSet::kFarthest) return Status::kRefused;
  if (applied.contains(push.update, 0)) return Status::kDuplicate;
  const std::size_t count = body.size() / pair;
  const std::span keys(reinterpret_cast<const std::int64_t*>(body.data()), count);
  const std::span gradients(reinterpret_cast<const float*>(body.data() + keys.size_bytes()), count * width);
  held.table.push(keys, gradients, {push.rate, push.step, push.scale});
  applied.add(push.update, 0, 1);
  ++held.history.version;
  evict(held, push.step);
  return Status::kDone;
}

// Looking at all rows takes time: often enough that no row stays for more than half as long again as it should. When it
// happens depends on the pushes alone, so copies come to the same.
void TableShard::evict(Held& held, std::uint64_t step) {
  const std::uint64_t after = held.table.options().evict_after;
  if (after == 0 || step < held.looked_at + std::max<std::uint64_t>(1, after / 2)) return;
  held.looked_at = step;
  held.table.evict(step);
}

std::vector<std::byte> TableShard::read(std::uint32_t chunk) const {
  const Held& held = held_.at(chunk);
  return pack(held.history, held.looked_at, held.table);
}

void TableShard::write(std::uint32_t chunk, std::span<const std::byte> state) {
  const TableOptions* options = plan_.table_of(chunk);
  if (options == nullptr) throw Error(ErrorKind::kDamaged, "there is no such partition");
  ByteReader reader(state);
  ChunkHistory history = ChunkHistory::load(reader);
  const auto looked_at = reader.get<std::uint64_t>();
  Held held{SparseTable::load(*options, reader.take(reader.left())), std::move(history), looked_at};
  held_.insert_or_assign(chunk, std::move(held));
}

std::vector<std::byte> TableShard::first_state(const TableOptions& options) {
  return pack(ChunkHistory(), 0, SparseTable(options));
}

}  // namespace muster::strategies
