// Linear probing, with entries moved up when one is erased so that no search meets a gap. Rounds make clear() free: an
// entry of another round counts as empty.
#include "muster/strategies/parameter_server/key_index.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/memory.h"
#include "muster/base/text.h"

namespace muster::strategies {
namespace {

constexpr std::size_t kFewestEntries = 64;
constexpr std::size_t kLarge = std::size_t{1} << 20;  // bytes

std::size_t entries_for(std::size_t keys) {
  return std::bit_ceil(std::max(kFewestEntries, 2 * keys));
}

}  // namespace

comm::SharedRegion take_memory(std::size_t bytes) {
  comm::RegionOptions options;
  options.shared = false;
  options.huge_pages = bytes >= kLarge;
  // Asking takes longer than taking a little.
  options.memory = bytes >= kLarge ? usable_memory() : Memory{kLarge, ""};
  if (bytes > options.memory->usable_bytes)
    throw Error(ErrorKind::kResource,
                fmt::format("{} more are needed for rows and {}", human_bytes(bytes), options.memory->reason),
                "embedding table",
                "Admit fewer keys (admit_after), evict old ones (evict_after), or use more servers.");
  return comm::SharedRegion::create(bytes, options);
}

KeyIndex::KeyIndex(std::size_t keys)
    : region_(take_memory(entries_for(keys) * sizeof(Entry))),
      entries_(reinterpret_cast<Entry*>(region_.bytes().data())),
      mask_(entries_for(keys) - 1) {
}

KeyIndex::Insertion KeyIndex::insert(std::int64_t key, std::uint32_t number) {
  std::size_t place = place_of(key);
  if (entries_[place].round == round_) return {entries_[place].number, false};
  if (2 * (size_ + 1) > mask_ + 1) {
    grow();
    place = place_of(key);
  }
  entries_[place] = {key, number, round_};
  ++size_;
  return {entries_[place].number, true};
}

void KeyIndex::grow() {
  KeyIndex larger(mask_ + 1);
  for_each([&](std::int64_t key, std::uint32_t number) { larger.insert(key, number); });
  *this = std::move(larger);
}

// Entries behind the gap move up until one that is at its home, or a free one: no search may meet a gap before its key.
void KeyIndex::erase(std::int64_t key) {
  std::size_t gap = place_of(key);
  MUSTER_CHECK(entries_[gap].round == round_, "a key that is not there");
  for (std::size_t place = (gap + 1) & mask_; entries_[place].round == round_; place = (place + 1) & mask_) {
    const std::size_t way_from_home = (place - home(entries_[place].key)) & mask_;
    if (way_from_home < ((place - gap) & mask_)) continue;
    entries_[gap] = entries_[place];
    gap = place;
  }
  entries_[gap].round = 0;
  --size_;
}

void KeyIndex::clear() {
  size_ = 0;
  if (++round_ != 0) return;
  std::memset(region_.bytes().data(), 0, region_.bytes().size());  // entries of 2^32 rounds ago would be alive again
  round_ = 1;
}

}  // namespace muster::strategies
