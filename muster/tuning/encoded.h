// The trials of a history as rows of unit numbers, kept from one question to the next.
//
// A row has one number a parameter: where in its unit interval the value lies (Parameter::to_unit), NaN where the key
// is not active. Rows are made once a trial; History::digest tells when another history is shown, and then all are made
// anew. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "muster/tuning/space.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

// One row.
std::vector<double> encode(const Space& space, const Assignment& values);

class Encoded {
 public:
  explicit Encoded(const Space& space) : space_(space) {}

  // Must be called before rows of the trials of `history` are asked for.
  void update(const History& history);
  std::span<const double> row(std::uint64_t number) const {
    return {rows_.data() + number * space_.size(), space_.size()};
  }

 private:
  const Space& space_;
  std::vector<double> rows_;
  std::uint64_t trials_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace muster::tuning
