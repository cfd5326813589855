// A keyed permutation of the shards, dealt out in turn: no state, so every member computes the same placement for
// itself.
#include "muster/data/partition/random_placement.h"

#include "muster/base/check.h"
#include "muster/base/random.h"
#include "muster/data/permutation.h"

namespace muster::data {

Placement place_randomly(std::uint64_t shards, std::uint64_t members, std::uint64_t seed) {
  MUSTER_CHECK(members > 0, "shards are placed on somebody");
  const Permutation order(shards, StreamKey{.seed = seed, .purpose = Purpose::kPartition});
  Placement placement;
  placement.member_of.resize(shards);
  for (std::uint64_t i = 0; i < shards; ++i)
    placement.member_of[order(i)] = static_cast<std::uint32_t>(i % members);
  return placement;
}

}  // namespace muster::data
