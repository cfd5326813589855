// What is computed in which step of split training: a function of a few numbers that all parties know, so that nobody
// has to be told which rows are meant.
//
// An epoch is a step for each batch of training rows, in an order of the epoch's own, and then one for each batch of
// test rows. Rows are places in the alignment: training rows first. A value; pure. No torch here.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::federated {

struct VerticalPlan {
  std::uint64_t train_rows = 0;
  std::uint64_t test_rows = 0;
  std::uint64_t batch = 0;
  std::uint64_t epochs = 0;
  std::uint64_t seed = 0;  // of the order
  std::uint64_t checkpoint_steps = 0;

  struct Place {
    std::uint64_t epoch = 0;  // from 0
    bool train = false;
    bool ends_epoch = false;
    std::vector<std::uint64_t> rows{};
  };

  std::uint64_t steps() const;
  // REQUIRES: step < steps().
  Place at(std::uint64_t step) const;
  // Whether every party writes down where it is before this step; steps() is when all is done.
  bool checkpoint_due(std::uint64_t step) const;
  // Throws Error{kDamaged} for numbers that make no plan, or one of more steps than anybody could train.
  void check() const;

  bool operator==(const VerticalPlan&) const = default;
};

}  // namespace muster::federated
