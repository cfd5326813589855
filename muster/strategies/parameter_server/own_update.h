// An update of users' own, which servers apply instead of an optimizer: a header of its own, so that programs that give
// one see nothing of how servers hold their chunks (shard.h).
#pragma once

#include <functional>
#include <span>

namespace muster::strategies {

// Changes the parameters of a chunk by a gradient. It must be a function of its arguments: copies call it, too, and
// come to the same.
using OwnUpdate = std::function<void(std::span<float> parameters, std::span<const float> gradient, double rate)>;

}  // namespace muster::strategies
