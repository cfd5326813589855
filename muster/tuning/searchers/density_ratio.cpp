// Candidates drawn from the density of the good, judged by both densities; all keys together, or one after the other.
// Both densities are made anew for each question: thousands of kernels cost less than keeping them right.
#include "muster/tuning/searchers/density_ratio.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace muster::tuning {
namespace {

// The newest half of `most`, and evenly chosen ones of those before.
Rows thinned(const Rows& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  const std::size_t newest = most / 2;
  const std::size_t older = rows.size() - newest;
  const std::size_t kept = most - newest;
  Rows chosen;
  for (std::size_t i = 0; i < kept; ++i)
    chosen.push_back(rows[i * older / kept]);
  chosen.insert(chosen.end(), rows.end() - static_cast<std::ptrdiff_t>(newest), rows.end());
  return chosen;
}

// Older observations count less, from 25 on: a linear ramp up to the 25 newest.
std::vector<double> weights_of(std::size_t count) {
  constexpr std::size_t kNewest = 25;
  std::vector<double> weights(count, 1.0);
  for (std::size_t i = 0; i + kNewest < count; ++i)
    weights[i] = static_cast<double>(i + 1) / static_cast<double>(count - kNewest);
  return weights;
}

struct Candidate {
  std::vector<double> units;
  Assignment chosen;
  double log_ratio = -std::numeric_limits<double>::infinity();
};

// The best candidate for `keys`, given what is chosen before.
Candidate best_candidate(const Space& space, const std::vector<std::size_t>& keys, const Candidate& before,
                         const Rows& good, const Rows& bad, const DensityRatioOptions& options, RandomStream& random) {
  const Parzen likely(space, keys, good, weights_of(good.size()), options.parzen);
  const Parzen unlikely(space, keys, bad, weights_of(bad.size()), options.parzen);
  Candidate best;
  for (std::int64_t i = 0; i < options.candidates; ++i) {
    Candidate candidate{before.units, before.chosen};
    likely.sample(random, candidate.units, candidate.chosen);
    candidate.log_ratio = likely.log_density(candidate.units) - unlikely.log_density(candidate.units);
    if (i == 0 || candidate.log_ratio > best.log_ratio) best = std::move(candidate);
  }
  return best;
}

Rows with_key(const Rows& rows, std::size_t key) {
  Rows chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen), [&](auto row) { return !std::isnan(row[key]); });
  return chosen;
}

}  // namespace

RatioProposal best_ratio(const Space& space, const Rows& good, const Rows& bad, const DensityRatioOptions& options,
                         RandomStream& random, const Assignment& fixed) {
  const Rows looked_at = thinned(bad, options.kernels);
  Candidate best;
  best.units.assign(space.size(), std::numeric_limits<double>::quiet_NaN());
  best.chosen = fixed;
  const auto is_fixed = [&](std::size_t key) { return fixed.find(space.parameters()[key].name) != nullptr; };
  if (options.multivariate) {
    std::vector<std::size_t> keys;
    for (std::size_t key = 0; key < space.size(); ++key) {
      if (!is_fixed(key)) keys.push_back(key);
    }
    best = best_candidate(space, keys, best, good, looked_at, options, random);
  } else {
    double sum = 0.0;
    for (const std::size_t key : space.order()) {
      if (is_fixed(key) || !space.active(key, best.chosen)) continue;
      best = best_candidate(space, {key}, best, with_key(good, key), with_key(looked_at, key), options, random);
      sum += best.log_ratio;
    }
    best.log_ratio = sum;
  }
  return {*space.fit(best.chosen), best.log_ratio};
}

}  // namespace muster::tuning
