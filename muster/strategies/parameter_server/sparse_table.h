// SparseTable: one partition of an embedding table, as a server holds it: rows of floats by int64 key.
//
// A row comes into being at the first push of its key. Before that the key has an initial row, which is a function of
// the options and the key alone: who asks first, and where, changes nothing. The same pushes and evictions in the same
// order give the same bits, and save() gives the same bytes whatever lies where in memory. Rows lie in large blocks;
// calls take batches of keys and fetch rows ahead, because the time goes into waiting for memory.
// Thread safety: one thread at a time; const calls may run beside each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/comm/region.h"
#include "muster/strategies/parameter_server/key_index.h"
#include "muster/strategies/parameter_server/row_merger.h"
#include "muster/strategies/parameter_server/row_update.h"
#include "muster/strategies/parameter_server/table_options.h"

namespace muster::strategies {

// How a push is applied.
struct PushOptions {
  double lr = 0;
  std::uint64_t step = 0;  // the job's; what evict() counts in
  double scale = 1;        // of the gradients
};

struct TableCounts {
  std::uint64_t rows = 0;
  std::uint64_t candidates = 0;  // keys that were pushed, and not often enough for a row
  std::uint64_t bytes = 0;       // of memory taken from the system
  std::uint64_t evicted = 0;     // rows, ever
  std::uint64_t refused = 0;     // gradients of keys that were not admitted, ever; merged ones count once
};

// The partition that holds a key, 0 .. partitions - 1, evenly whatever the keys' pattern. Part of the meaning of saved
// tables: never changed. REQUIRES: partitions > 0.
std::uint32_t partition_of(std::int64_t key, std::uint32_t partitions);

class SparseTable {
 public:
  // Throws kInvalidInput that names the option out of its range, kResource.
  explicit SparseTable(const TableOptions& options);
  // The table that save() wrote. Throws kDamaged (cut, altered), kMismatch (a table of another width, optimizer, seed,
  // name or init_scale), kUnsupported (another version), kResource. Nothing is allocated before sizes were checked.
  static SparseTable load(const TableOptions& options, std::span<const std::byte> bytes);

  SparseTable(SparseTable&&) noexcept = default;
  SparseTable& operator=(SparseTable&&) noexcept = default;

  const TableOptions& options() const { return options_; }
  TableCounts counts() const;

  // Copies the keys' rows to `rows`, one behind the other; initial rows of keys that have none, and creates nothing.
  // REQUIRES: rows.size() == keys.size() * width.
  void pull(std::span<const std::int64_t> keys, std::span<float> rows) const;

  // Updates the keys' rows with one gradient row each. A key that comes more than once is updated once, with the sum
  // (row_merger.h). Gradients are applied as they are, finite or not. Throws kInvalidInput for 2^31 keys or more;
  // kResource, after which the table is good for nothing but to be dropped.
  // REQUIRES: gradients.size() == keys.size() * width.
  void push(std::span<const std::int64_t> keys, std::span<const float> gradients, const PushOptions& how);

  // Removes rows whose last push is more than evict_after steps before `step`, and candidates that were not pushed
  // since the evict() before. A key that comes back begins with its initial row. Returns the number of rows removed.
  // Nothing when evict_after is 0. Takes time for every row: a matter of every some hundred steps.
  std::uint64_t evict(std::uint64_t step);

  // Everything, rows in the order of their keys. The form: sparse_table_save.cpp.
  std::vector<std::byte> save() const;

 private:
  RowHead* row_at(std::uint32_t row) const {
    return reinterpret_cast<RowHead*>(slabs_[row >> slab_shift_].bytes().data() + (row & slab_mask_) * stride_);
  }

  void fill_initial(std::int64_t key, float* row) const;
  std::uint32_t add_row(std::int64_t key);
  std::uint32_t find_or_admit(std::int64_t key);
  void rebuild_index();
  void forget_candidates();

  TableOptions options_;
  std::uint64_t initial_key_;  // what initial rows depend on beside the key and the scale
  std::size_t row_floats_;     // behind a row's head
  std::size_t stride_;         // bytes from row to row
  unsigned slab_shift_;
  std::uint32_t slab_mask_;
  std::vector<comm::SharedRegion> slabs_;  // 2 ^ slab_shift_ rows each
  std::uint32_t rows_ = 0;
  KeyIndex index_;
  KeyIndex candidates_;  // twice the pushes, and 1 if there was one since the last evict()
  std::uint64_t evicted_ = 0;
  std::uint64_t refused_ = 0;
  std::shared_ptr<const BiasCorrections> corrections_;  // Adam's
  RowMerger merger_;                                    // of push(), as the next
  std::vector<RowTarget> targets_;
};

}  // namespace muster::strategies
