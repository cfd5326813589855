// Balanced placement: the heaviest shard first, each to the member that would be done with it first (longest processing
// time first). With equal speeds no member is above 4/3 of the best possible load (Graham, 1969).
#pragma once

#include <span>

#include "muster/data/partition/placement.h"

namespace muster::data {

// `weights` of the shards: samples, bytes, seconds. Ties go to the lower number, so the result is one.
// Throws Error{kInvalidInput}: no members, a weight that is negative or a speed that is not positive, or not finite.
Placement place_balanced(std::span<const double> weights, std::span<const Member> members);

}  // namespace muster::data
