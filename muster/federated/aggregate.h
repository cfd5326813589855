// How the updates of a round become one. Pure functions over flat spans; the plain mean is not here, because it is
// summed while updates come (simulation.h).
//
// The robust ones look at every number by itself (median, trimmed mean; Yin et al. 2018) or at whole updates (krum;
// Blanchard et al. 2017), so that a few false clients cannot move the result far. They do not weigh by samples: what a
// client says of its samples may be false, too. Results do not depend on `threads`. No torch here.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace muster::federated {

using Updates = std::span<const std::span<const float>>;

// The middle one of each number, or the mean of the two in the middle. REQUIRES, here and below: at least one update,
// all finite and as long as `out`; threads > 0.
void coordinate_median(Updates updates, std::span<float> out, int threads = 1);

// How many of n updates a trimmed mean leaves out at each end: floor(trim * n).
std::size_t trimmed_at_an_end(double trim, std::size_t n);
// The mean of each number without so many of the smallest and as many of the largest. REQUIRES: 0 <= trim < 0.5.
void trimmed_mean(Updates updates, double trim, std::span<float> out, int threads = 1);

// Numbers of the `keep` updates with the smallest sums of squared distances to their n - f - 2 nearest, in rising order
// of that sum, then of their numbers. REQUIRES: n >= f + 3, keep <= n.
std::vector<std::size_t> choose_by_krum(Updates updates, std::size_t false_ones, std::size_t keep, int threads = 1);

// The mean of the chosen ones, in their order.
void mean_of(Updates updates, std::span<const std::size_t> chosen, std::span<float> out);

bool all_finite(std::span<const float> values);
// The square root of the sum of squares, summed in double from left to right; not finite if an element is not.
double norm(std::span<const float> update);
// Shortens an update that is longer than `most`; gives the factor.
double clip_to(std::span<float> update, double most);

}  // namespace muster::federated
