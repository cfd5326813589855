// RowMerger: each key of a batch once, and the sum of its rows of gradients.
//
// Clients merge before they push (fewer bytes), and before they pull (slots() say where each position finds its row);
// a table merges what it is given, so that a key that comes twice is updated once with the sum. Keys come in the order
// of their first appearance, and a key's rows are added in the order in which they came: the bits depend on the batch
// alone. Memory is kept for the next batch. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/strategies/parameter_server/key_index.h"

namespace muster::strategies {

class RowMerger {
 public:
  // Forgets the batch before; the same keys once more cost no more than to compare them. Throws kInvalidInput for 2^31
  // keys or more, kResource.
  void merge_keys(std::span<const std::int64_t> keys);

  // Of the last merge_keys(); valid until the next.
  std::span<const std::int64_t> keys() const { return keys_; }
  // For each position of the batch its key's place in keys().
  std::span<const std::uint32_t> slots() const { return slots_; }
  // For each of keys() the first position that has it.
  std::span<const std::uint32_t> first_positions() const { return first_; }
  bool has_duplicates() const { return keys_.size() != slots_.size(); }

  // One row of `width` floats for each of keys(): `gradients` itself when no key came twice, otherwise memory of ours
  // that is valid until the next call. REQUIRES: gradients.size() == width * slots().size().
  std::span<const float> merge_rows(std::span<const float> gradients, std::size_t width);

 private:
  KeyIndex index_;
  std::vector<std::int64_t> batch_;  // that was merged last
  std::vector<std::int64_t> keys_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint32_t> first_;
  std::vector<float> sums_;
};

struct MergedRows {
  std::vector<std::int64_t> keys;
  std::vector<float> gradients;
};

// The same in one call, for whoever merges once. REQUIRES: gradients.size() == width * keys.size().
MergedRows merge_duplicates(std::span<const std::int64_t> keys, std::span<const float> gradients, std::size_t width);

}  // namespace muster::strategies
