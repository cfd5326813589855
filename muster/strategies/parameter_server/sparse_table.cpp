// An index from keys to numbers of rows, rows in large blocks, and loops that fetch both some places ahead: nearly all
// the time is waiting for memory. The saved form is in sparse_table_save.cpp.
#include "muster/strategies/parameter_server/sparse_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::strategies {
namespace {

constexpr std::uint32_t kMostWidth = 1u << 16;
constexpr std::size_t kSlabBytes = std::size_t{32} << 20;
constexpr std::size_t kBlock = 32;  // rows of a pull that are fetched together
constexpr std::size_t kAhead = 16;  // rows between prefetch and use: what a core can have under way

void require(bool condition, const TableOptions& options, const char* option, double value, const char* allowed) {
  if (condition) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("{} = {} is not {}", option, value, allowed),
              fmt::format("embedding table '{}'", options.name));
}

const TableOptions& checked(const TableOptions& options) {
  require(options.width >= 1 && options.width <= kMostWidth, options, "width", options.width, "from 1 to 65536");
  require(options.eps >= 0 && std::isfinite(options.eps), options, "eps", options.eps, "0 or more");
  require(options.beta1 >= 0 && options.beta1 < 1, options, "beta1", options.beta1, "at least 0 and below 1");
  require(options.beta2 >= 0 && options.beta2 < 1, options, "beta2", options.beta2, "at least 0 and below 1");
  require(options.initial_accumulator >= 0 && std::isfinite(options.initial_accumulator), options,
          "initial_accumulator", options.initial_accumulator, "0 or more");
  require(options.init_scale >= 0 && std::isfinite(options.init_scale), options, "init_scale", options.init_scale,
          "0 or more");
  require(options.admit_after >= 1 && options.admit_after <= kMostAdmitAfter, options, "admit_after",
          options.admit_after, "from 1 to 2^30");
  return options;
}

// Tables of one job share its seed; the name keeps them apart.
std::uint64_t initial_key(const TableOptions& options) {
  std::uint64_t name = 0xCBF29CE484222325;  // FNV-1a
  for (const char letter : options.name)
    name = (name ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  StreamKey key;
  key.seed = options.seed;
  key.purpose = Purpose::kModelInit;
  key.epoch = std::numeric_limits<std::uint64_t>::max();  // initial values of dense parameters have no epoch
  key.sample = name;
  return derive_seed(key);
}

}  // namespace

std::uint32_t partition_of(std::int64_t key, std::uint32_t partitions) {
  MUSTER_CHECK(partitions > 0, "a table of no partitions");
  // The finalizer of SplitMix64; its upper half times the partitions. Not the index's hash: the keys of one partition
  // must still be spread over the whole of its index.
  auto bits = static_cast<std::uint64_t>(key) + 0x9E3779B97F4A7C15;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  bits ^= bits >> 31;
  return static_cast<std::uint32_t>(((bits >> 32) * partitions) >> 32);
}

SparseTable::SparseTable(const TableOptions& options)
    : options_(checked(options)),
      initial_key_(initial_key(options)),
      row_floats_(options.width * parts_of(options.optimizer)),
      stride_((kHeadBytes + row_floats_ * sizeof(float) + kHeadBytes - 1) / kHeadBytes * kHeadBytes) {
  const std::size_t slab_rows = std::bit_floor(std::max<std::size_t>(1, kSlabBytes / stride_));
  slab_shift_ = static_cast<unsigned>(std::countr_zero(slab_rows));
  slab_mask_ = static_cast<std::uint32_t>(slab_rows - 1);
  if (options.optimizer == SparseOptimizer::kAdam)
    corrections_ = std::make_shared<const BiasCorrections>(options.beta1, options.beta2);
}

TableCounts SparseTable::counts() const {
  TableCounts counts{rows_, candidates_.size(), index_.bytes() + candidates_.bytes(), evicted_, refused_};
  for (const comm::SharedRegion& slab : slabs_)
    counts.bytes += slab.bytes().size();
  return counts;
}

// Philox of the key and the place in the row, under a key of the table's.
void SparseTable::fill_initial(std::int64_t key, float* row) const {
  const auto bits = static_cast<std::uint64_t>(key);
  const std::array<std::uint32_t, 2> table{static_cast<std::uint32_t>(initial_key_),
                                           static_cast<std::uint32_t>(initial_key_ >> 32)};
  const auto scale = static_cast<float>(options_.init_scale);
  for (std::uint32_t done = 0; done < options_.width; done += 4) {
    const PhiloxBlock block =
        philox({done, 0, static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}, table);
    for (std::uint32_t i = 0; i < std::min(4u, options_.width - done); ++i)
      row[done + i] = scale * (static_cast<float>(block[i] >> 8) * 0x1.0p-23f - 1);
  }
}

void SparseTable::pull(std::span<const std::int64_t> keys, std::span<float> rows) const {
  const std::size_t width = options_.width;
  MUSTER_CHECK(rows.size() == keys.size() * width, "rows that do not fit their keys");
  // In blocks, so that what was fetched ahead is still in the first cache when it is needed: all index entries are
  // fetched while the block before is copied, then read, and all rows fetched, then copied.
  std::array<std::uint32_t, kBlock> found;
  const auto prefetch_block = [&](std::size_t begin) {
    for (std::size_t i = begin; i < std::min(begin + kBlock, keys.size()); ++i)
      index_.prefetch(keys[i]);
  };
  prefetch_block(0);
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, keys.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = index_.find(keys[begin + i]);
      if (found[i] != KeyIndex::kNone) prefetch_row(floats_of(row_at(found[i])), width * sizeof(float));
    }
    prefetch_block(begin + kBlock);
    for (std::size_t i = 0; i < count; ++i) {
      float* const to = rows.data() + (begin + i) * width;
      if (found[i] == KeyIndex::kNone)
        fill_initial(keys[begin + i], to);
      else
        std::memcpy(to, floats_of(row_at(found[i])), width * sizeof(float));
    }
  }
}

void SparseTable::push(std::span<const std::int64_t> keys, std::span<const float> gradients, const PushOptions& how) {
  const std::size_t width = options_.width;
  merger_.merge_keys(keys);
  const float* const merged = merger_.merge_rows(gradients, width).data();
  const std::span<const std::int64_t> unique = merger_.keys();
  targets_.clear();
  for (std::size_t i = 0; i < unique.size(); ++i) {
    if (i + kAhead < unique.size()) index_.prefetch(unique[i + kAhead]);
    const std::uint32_t row = find_or_admit(unique[i]);
    if (row != KeyIndex::kNone) targets_.push_back({row_at(row), merged + i * width});
  }
  const RowUpdate update{options_.optimizer, how.lr,         how.scale,      how.step,
                         options_.eps,       options_.beta1, options_.beta2, corrections_.get()};
  update_rows(update, targets_, width);
}

// The key's row, made if it has none and was pushed often enough; kNone if not.
std::uint32_t SparseTable::find_or_admit(std::int64_t key) {
  const std::uint32_t row = index_.find(key);
  if (row != KeyIndex::kNone) return row;
  if (options_.admit_after > 1) {
    std::uint32_t& pushes = candidates_.insert(key, 0).number;
    pushes = (pushes + 2) | 1;
    if (pushes / 2 < options_.admit_after) {
      ++refused_;
      return KeyIndex::kNone;
    }
    candidates_.erase(key);
  }
  const std::uint32_t added = add_row(key);
  float* const floats = floats_of(row_at(added));
  fill_initial(key, floats);
  std::fill(floats + options_.width, floats + row_floats_, 0.0f);
  *row_at(added) = {key, 0, static_cast<float>(options_.initial_accumulator), 0};
  return added;
}

// Its contents are the caller's affair.
std::uint32_t SparseTable::add_row(std::int64_t key) {
  if (rows_ == KeyIndex::kNone - 1)
    throw Error(ErrorKind::kResource, fmt::format("more than {} rows", rows_),
                fmt::format("embedding table '{}'", options_.name), "Cut it into more partitions.");
  if (rows_ >> slab_shift_ == slabs_.size()) slabs_.push_back(take_memory((std::size_t{slab_mask_} + 1) * stride_));
  index_.insert(key, rows_);
  return rows_++;
}

std::uint64_t SparseTable::evict(std::uint64_t step) {
  if (options_.evict_after == 0) return 0;
  forget_candidates();
  std::uint32_t kept = 0;
  for (std::uint32_t row = 0; row < rows_; ++row) {
    const std::uint64_t last_step = row_at(row)->last_step;
    if (step > last_step && step - last_step > options_.evict_after) continue;
    if (kept != row) std::memcpy(row_at(kept), row_at(row), stride_);
    ++kept;
  }
  const std::uint64_t removed = rows_ - kept;
  if (removed == 0) return 0;
  rows_ = kept;
  evicted_ += removed;
  while (slabs_.size() > (std::size_t{rows_} + slab_mask_) >> slab_shift_)
    slabs_.pop_back();
  rebuild_index();
  return removed;
}

void SparseTable::rebuild_index() {
  index_ = KeyIndex();  // the old one's memory goes back first
  index_ = KeyIndex(rows_);
  for (std::uint32_t row = 0; row < rows_; ++row)
    index_.insert(row_at(row)->key, row);
}

void SparseTable::forget_candidates() {
  KeyIndex kept;
  candidates_.for_each([&](std::int64_t key, std::uint32_t pushes) {
    if (pushes & 1) kept.insert(key, pushes - 1);
  });
  candidates_ = std::move(kept);
}

}  // namespace muster::strategies
