// A Gaussian process over unit rows: mean and uncertainty of the loss at any point, from a few hundred at most.
//
// Matern 5/2 kernel with a length scale for each key, noise, and a scale that is worked out exactly; the length scales
// and the noise are the most probable ones (log-normal priors), found by Rprop from a fixed start, so that equal
// observations give the same model. A choice is a corner of a simplex (two different values are 1 apart); a key that is
// not active is the middle of its range, 1 apart from all that are. Thread safety: constant after construction.
#pragma once

#include <vector>

#include "muster/tuning/dense.h"
#include "muster/tuning/space.h"

namespace muster::tuning {

class GaussianProcess {
 public:
  struct Prediction {
    double mean = 0.0;
    double deviation = 0.0;
  };

  // `rows` as encoded.h makes them; `values` should be about standard (mean 0, deviation 1). REQUIRES: at least one.
  GaussianProcess(const Space& space, const std::vector<std::vector<double>>& rows, std::vector<double> values);

  Prediction predict(const std::vector<double>& row) const;
  // One a key of the space.
  const std::vector<double>& length_scales() const { return lengths_; }

 private:
  void fit();
  double evaluate(const std::vector<double>& logs, std::vector<double>* gradient);
  std::vector<double> gradient_at(const std::vector<double>& logs, const std::vector<double>& squared,
                                  const std::vector<double>& inverse_squares) const;
  double prior_distance(std::size_t i, double log) const;
  double squared_distance(const std::vector<double>& a, const std::vector<double>& b, std::size_t key) const;

  std::vector<std::size_t> choices_;  // by key: how many, 0 for a number
  std::vector<std::vector<double>> rows_;
  std::vector<double> values_;
  std::vector<std::vector<double>> apart_;  // by key: squared distances of all pairs i > j
  std::vector<double> lengths_;
  double noise_ = 1e-4;
  double scale_ = 1.0;
  Matrix factor_;
  std::vector<double> alpha_;
};

}  // namespace muster::tuning
