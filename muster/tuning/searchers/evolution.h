// The state of CMA-ES (Hansen's tutorial, 2016, with active covariance updates) in a box of unit numbers, apart from
// trials and spaces: a mean, a step size and a covariance that are moved by batches of evaluated points.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/random.h"
#include "muster/tuning/dense.h"

namespace muster::tuning {

class Evolution {
 public:
  // `lambda`: points of a batch. `floors`: by coordinate, the smallest standard deviation that is kept (for integers: a
  // part of a step; 0: none).
  Evolution(std::vector<double> mean, double sigma, std::size_t lambda, std::vector<double> floors);

  std::size_t lambda() const { return weights_.size(); }
  const std::vector<double>& mean() const { return mean_; }
  // Standard deviation of a coordinate.
  double deviation(std::size_t i) const;
  // Weight of the batch's point of that place (best is 0); the positive ones sum to 1.
  double weight(std::size_t place) const { return weights_[place]; }

  // A point of the box: `even`, a point of the unit cube, turned into a step of this distribution; where that leads
  // outside, a random step up to 50 times, and then the wall.
  std::vector<double> sample(const std::vector<double>& even, RandomStream& random) const;
  // Takes lambda points, best first. Points from elsewhere (late, given) may be among them: steps that are longer than
  // this distribution would take are shortened (Hansen 2011, injection). NaN: the coordinate played no part.
  void update(const std::vector<std::vector<double>>& points);
  // Nothing moves any more in any coordinate.
  bool converged() const;

 private:
  // A batch seen from the mean, in units of sigma.
  struct Batch {
    std::vector<std::vector<double>> steps;
    std::vector<double> lengths;         // of the steps where the distribution is round
    std::vector<double> mean_step;       // weighted, of the better half
    std::vector<double> isotropic_step;  // the same, C^-1/2 times
  };
  Batch measured(const std::vector<std::vector<double>>& points) const;
  void adapt_covariance(const Batch& batch, bool moving);
  void decompose();
  void keep_floors();

  std::size_t n_;
  std::vector<double> mean_;
  double sigma_;
  std::vector<double> floors_;
  std::vector<double> weights_;
  double mu_eff_ = 1.0;
  double c_sigma_ = 0.0, d_sigma_ = 1.0, c_c_ = 0.0, c_1_ = 0.0, c_mu_ = 0.0, chi_ = 1.0;
  Matrix covariance_;
  Matrix axes_;                // eigenvectors
  std::vector<double> roots_;  // of the eigenvalues
  std::vector<double> path_sigma_, path_c_;
  std::uint64_t batches_ = 0;
};

}  // namespace muster::tuning
