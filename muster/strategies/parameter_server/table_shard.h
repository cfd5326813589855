// The partitions of embedding tables that one server holds. A partition is a chunk like others: placed, copied, written
// down and moved by the same rules; what differs is that it is pulled and pushed by rows.
//
// Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/chunk_state.h"
#include "muster/strategies/parameter_server/chunk_store.h"
#include "muster/strategies/parameter_server/message.h"
#include "muster/strategies/parameter_server/server_plan.h"
#include "muster/strategies/parameter_server/sparse_table.h"
#include "muster/strategies/parameter_server/transport.h"

namespace muster::strategies {

class TableShard final : public ChunkStore {
 public:
  explicit TableShard(const ServerPlan& plan) : plan_(plan), most_body_(plan.limits().most_body) {}

  bool has(std::uint32_t chunk) const override { return held_.count(chunk) > 0; }
  // REQUIRES, of all that follow unless they say else: has(chunk).
  std::uint64_t version(std::uint32_t chunk) const override { return held_.at(chunk).history.version; }
  std::uint64_t next_update(std::uint32_t chunk, std::uint32_t client) const override {
    return held_.at(chunk).history.next_update(client);
  }

  // The rows of `keys`, int64 each, valid until the next call; nothing when that is no list of keys, or one too long.
  std::optional<std::span<const float>> pull(std::uint32_t chunk, std::span<const std::byte> keys);
  // Gives kDone, kDuplicate or kRefused (a body of the wrong length). Throws kResource, after which the partition is
  // good for nothing but to be dropped.
  Status push(std::uint32_t chunk, std::uint32_t client, const PushRowsRequest& push, std::span<const std::byte> body);

  std::vector<std::byte> read(std::uint32_t chunk) const override;
  void write(std::uint32_t chunk, std::span<const std::byte> state) override;
  void drop(std::uint32_t chunk) override { held_.erase(chunk); }
  // Of a partition without rows.
  static std::vector<std::byte> first_state(const TableOptions& options);

 private:
  struct Held {
    SparseTable table;
    ChunkHistory history;
    std::uint64_t looked_at = 0;  // step in which rows were last looked at for their age
  };
  void evict(Held& held, std::uint64_t step);

  // Constant after construction.
  const ServerPlan& plan_;
  const std::size_t most_body_;
  // What moves.
  std::map<std::uint32_t, Held> held_;
  std::vector<float> rows_;  // scratch
};

}  // namespace muster::strategies
