// A Parzen estimator over a space: a weighted mixture of kernels, one around each observation and one that is the whole
// space (the prior). What TPE compares are two of them.
//
// A kernel is a product over the keys: a normal distribution, cut off at the ends of the unit interval, around a
// number; most of the weight on the value of a choice. A key that is not active in an observation is taken from the
// whole range there, so a kernel says something about every assignment, whatever its conditions. Thread safety:
// constant after construction.
#pragma once

#include <span>
#include <vector>

#include "muster/base/random.h"
#include "muster/tuning/space.h"

namespace muster::tuning {

// The bandwidth of a number's kernel is the distance to its further neighbour among the observations, at least
// 1 / min(most_kernels, n + 1)^sharpness of the range.
struct ParzenOptions {
  double prior_weight = 1.0;
  double most_kernels = 100.0;
  double sharpness = 1.0;
};

class Parzen {
 public:
  // `rows`: unit numbers of the observations (encoded.h), NaN where not active; only the keys in `keys` are looked at.
  // `weights`: one an observation, positive.
  Parzen(const Space& space, std::vector<std::size_t> keys, const std::vector<std::span<const double>>& rows,
         std::vector<double> weights, const ParzenOptions& options);

  // Draws the keys into `units` (one number a parameter; those that turn out not to be active become NaN). `chosen`
  // has the values of the keys drawn before, and gets those that are drawn now.
  void sample(RandomStream& random, std::vector<double>& units, Assignment& chosen) const;
  // The logarithm of the density at `units`, over the keys that are active there.
  double log_density(const std::vector<double>& units) const;

 private:
  struct Axis {
    std::size_t key = 0;
    std::size_t choices = 0;                 // 0: a number
    std::vector<std::vector<double>> cells;  // of a number of few values: for each of them the logarithm of its
                                             // probability, by kernel; empty: densities
    std::vector<double> center;              // by kernel; NaN: the whole range
    std::vector<double> width;               // of numbers: standard deviation
    std::vector<double> inverse;             // of numbers: 1 / width
    std::vector<double> scale;               // of numbers: logarithm of what normalises the density
    double on = 1.0;                         // of choices: probability of a kernel's own value, and of each other one
    double off = 1.0;
  };

  void fit_number(Axis& axis, const ParzenOptions& options) const;
  void tabulate(Axis& axis) const;
  void add_axis(const Axis& axis, double unit, std::vector<double>& logs) const;
  double draw(const Axis& axis, std::size_t kernel, RandomStream& random) const;

  const Space& space_;
  std::vector<Axis> axes_;          // in an order in which a condition's key comes first
  std::vector<double> cumulative_;  // of the kernels' weights; the prior is the last one
  std::vector<double> log_weights_;
};

}  // namespace muster::tuning
