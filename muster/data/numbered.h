// A data set of numbers alone: which samples a lane computes, for a program that makes or holds the samples itself.
//
// The session still decides which sample is used when, exactly once an epoch; the program looks a lane's numbers up in
// what it has (a torch::data data set, tensors of its own, sentences of different lengths) or makes something of them
// (a game played with the number as its seed).
#pragma once

#include <cstdint>
#include <memory>

#include "muster/data/dataset.h"

namespace muster::data {

// The target of sample i is i; its input is a single 0 that means nothing. Throws Error{kInvalidInput} for none.
std::shared_ptr<const Dataset> numbered(std::uint64_t samples);

}  // namespace muster::data
