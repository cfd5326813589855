// Sampling: epochs that a program puts together itself, instead of each sample once in a random order: rare classes
// more often, easy samples first. A function of the epoch alone, so that it does not matter who asks.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace muster::data {

struct Sampling {
  std::uint64_t samples = 0;  // in an epoch
  // The samples of the epoch in the order in which they are used, `samples` of them; each may come any number of times.
  // Always the same for the same epoch, in every process; called from any thread.
  std::function<std::vector<std::uint64_t>(std::uint64_t epoch)> ids{};
};

// Draws `samples` samples an epoch, with replacement: i with a probability proportional to weights[i]. Throws
// Error{kInvalidInput} unless weights are finite, not negative and not all zero.
Sampling weighted(std::span<const double> weights, std::uint64_t samples, std::uint64_t seed);

}  // namespace muster::data
