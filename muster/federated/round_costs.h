// The accountant (accountant.h, whose source has this, too) for who asks about many numbers of rounds: what a round
// costs by every order is computed once.
//
// A value. No torch here.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/federated/accountant.h"

namespace muster::federated {

class RoundCosts {
 public:
  explicit RoundCosts(const Mechanism& mechanism);
  // As the functions of the same names.
  Spent spent_after(std::uint64_t rounds, double delta) const;
  std::uint64_t rounds_within(double epsilon, double delta) const;

 private:
  std::vector<double> divergences_;  // one for each order
};

}  // namespace muster::federated
