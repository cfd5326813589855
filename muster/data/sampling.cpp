// Draws are by the cumulative sums of the weights,
// and a stream of random numbers of the epoch.
#include "muster/data/sampling.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::data {

Sampling weighted(std::span<const double> weights, std::uint64_t samples, std::uint64_t seed) {
  auto sums = std::make_shared<std::vector<double>>();
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      throw Error(ErrorKind::kInvalidInput, fmt::format("the weight of sample {} is {}", i, weights[i]), "weighted",
                  "Use numbers of at least 0.");
    sums->push_back(sum += weights[i]);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw Error(ErrorKind::kInvalidInput, fmt::format("the weights of all samples come to {}", sum), "weighted",
                "Some have to be above 0.");
  const auto draw = [sums, samples, seed](std::uint64_t epoch) {
    RandomStream random({.seed = seed, .purpose = Purpose::kSampling, .epoch = epoch});
    std::vector<std::uint64_t> ids(samples);
    for (std::uint64_t& id : ids) {
      // The first sum above the draw: samples without weight are never it. The very last sum is rounded, so a draw may
      // come to it.
      const double at = random.uniform() * sums->back();
      const auto above = std::upper_bound(sums->begin(), sums->end(), at);
      const auto last = std::lower_bound(sums->begin(), sums->end(), sums->back());
      id = static_cast<std::uint64_t>(std::min(above, last) - sums->begin());
    }
    return ids;
  };
  return {samples, draw};
}

}  // namespace muster::data
