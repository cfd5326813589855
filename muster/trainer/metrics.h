// The figures by which a model is judged, and the arithmetic behind them. No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json_fwd.h"

namespace muster::trainer {

struct Metric {
  std::string name;
  double value = 0;  // not a number: it has no value here (the AUC of samples that are all of one class)

  bool operator==(const Metric&) const = default;
};

// What a model achieves on a data set.
struct Evaluation {
  double loss = 0;                   // mean over the samples
  std::vector<Metric> metrics = {};  // first the one that is shown while training
  std::uint64_t samples = 0;

  // Throws kNotFound, naming those that there are.
  double metric(std::string_view name) const;

  Json to_json() const;
  // Throws kDamaged with `where` if a member is missing or of another type.
  static Evaluation from_json(const Json& json, const std::string& where);
};

// "loss 0.2500, accuracy 0.9000": for people.
std::string describe(const Evaluation& evaluation);

struct Scored {
  double score = 0;
  bool positive = false;
};
// The area under the receiver operating characteristic: how often a positive has a higher score than a negative, over
// all pairs, equal scores counting half. Not a number unless there are both kinds, or when a score is none.
double area_under_curve(std::vector<Scored> scored);

// Count, mean and sum of squared deviations of numbers that are seen in parts (Chan, Golub and LeVeque 1979): no digits
// are lost where the mean is large.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  void add(const Moments& part);
};

// The share of the variance that a model explains: 1 - squared_error / squares. Of values that are all the same 1 if
// there is no error, else 0.
double r_squared(double squared_error, double squares);

}  // namespace muster::trainer
