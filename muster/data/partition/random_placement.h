// Random placement: shards in a seeded order are dealt out one by one. Counts differ by at most one; when a member
// joins, nearly all shards move.
#pragma once

#include <cstdint>

#include "muster/data/partition/placement.h"

namespace muster::data {

// REQUIRES: members > 0.
Placement place_randomly(std::uint64_t shards, std::uint64_t members, std::uint64_t seed);

}  // namespace muster::data
