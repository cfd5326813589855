// The step that TPE and BOHB share: from good and bad observations to the assignment with the best ratio of densities.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/random.h"
#include "muster/tuning/searchers/parzen.h"
#include "muster/tuning/space.h"

namespace muster::tuning {

using Rows = std::vector<std::span<const double>>;  // unit numbers (encoded.h), oldest first

struct DensityRatioOptions {
  std::int64_t candidates = 24;
  bool multivariate = true;
  std::size_t kernels = 500;  // bad observations that are looked at
  ParzenOptions parzen = {};
};

struct RatioProposal {
  Assignment values = {};
  double log_ratio = 0.0;
};

// `fixed`: values that are chosen already; the keys in it are not drawn.
RatioProposal best_ratio(const Space& space, const Rows& good, const Rows& bad, const DensityRatioOptions& options,
                         RandomStream& random, const Assignment& fixed = {});

}  // namespace muster::tuning
