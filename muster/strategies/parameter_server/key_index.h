// KeyIndex: a hash table from int64 keys to 32-bit numbers, made for batches of random keys.
//
// Open addressing with linear probing in one block of memory; an entry is a quarter of a cache line, and at most half
// of the entries are used, so a search nearly always ends in the line where it began. Whoever looks up many keys calls
// prefetch() for keys some places ahead: the time is that of waiting for memory. clear() costs nothing: entries bear
// the number of the round in which they were written. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/comm/region.h"

namespace muster::strategies {

// All 64 bits of the key have a part in each of the result's.
inline std::uint64_t scatter_key(std::int64_t key) {
  auto bits = static_cast<std::uint64_t>(key);
  bits = (bits ^ (bits >> 32)) * 0xD6E8FEB86659FD93;
  bits = (bits ^ (bits >> 32)) * 0xA3B195354A39B70D;
  return bits ^ (bits >> 32);
}

// Memory of this process alone, in huge pages where the kernel has them. Throws kResource, with figures.
comm::SharedRegion take_memory(std::size_t bytes);

class KeyIndex {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Room for `keys` before it has to grow. Throws kResource, as everything here that grows.
  explicit KeyIndex(std::size_t keys = 0);

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return region_.bytes().size(); }

  void prefetch(std::int64_t key) const { __builtin_prefetch(&entries_[home(key)]); }

  // The key's number, or kNone.
  std::uint32_t find(std::int64_t key) const {
    const Entry& entry = entries_[place_of(key)];
    return entry.round == round_ ? entry.number : kNone;
  }

  struct Insertion {
    std::uint32_t& number;  // valid until the next call
    bool added;
  };
  // The key's number; `number` if it had none. REQUIRES: number != kNone.
  Insertion insert(std::int64_t key, std::uint32_t number);

  // REQUIRES: the key is there.
  void erase(std::int64_t key);
  void clear();

  // Calls visit(key, number) for each, in an order that depends on the history.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t place = 0; place <= mask_; ++place) {
      if (entries_[place].round == round_) visit(entries_[place].key, entries_[place].number);
    }
  }

 private:
  struct Entry {
    std::int64_t key;
    std::uint32_t number;
    std::uint32_t round;  // 0 in fresh memory: free
  };

  std::size_t home(std::int64_t key) const { return scatter_key(key) & mask_; }
  // Where the key is, or the free entry where it would go.
  std::size_t place_of(std::int64_t key) const {
    std::size_t place = home(key);
    while (entries_[place].round == round_ && entries_[place].key != key)
      place = (place + 1) & mask_;
    return place;
  }
  void grow();

  comm::SharedRegion region_;
  Entry* entries_;  // in region_
  std::size_t mask_;
  std::size_t size_ = 0;
  std::uint32_t round_ = 1;
};

}  // namespace muster::strategies
