// What is computed in which step of split training: a function of a few numbers that all parties know, so that nobody
// has to be told which rows are meant.
//
// An epoch is a step for each batch of training rows, in an order of the epoch's own, and then one for each batch of
// test rows. Without training rows nothing is trained: what a trained net says of the others is what is wanted. Rows
// are places in the alignment: training rows first. A value; pure. No torch here.
#pragma once

#include <cstdint>
#include <string>
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

  // Only to predict.
  bool predicts() const { return train_rows == 0; }
  // With those of test rows.
  std::uint64_t steps() const;
  // REQUIRES: step < steps().
  Place at(std::uint64_t step) const;
  // Steps that train: of an epoch, and of all that come before `step`. What people are told, and count in.
  std::uint64_t epoch_train_steps() const;
  std::uint64_t trained_before(std::uint64_t step) const;
  // The epoch that `step` is the end of or lies in, counted from 1: how many were begun when it was reached.
  std::uint64_t epochs_at(std::uint64_t step) const;
  // "trains: 5 epochs of 60 steps", "goes on after step 120 of 300", "predicts 60 rows": for people, where training
  // begins at `step`.
  std::string words_at(std::uint64_t step) const;
  // Whether every party writes down where it is before this step: behind each `checkpoint_steps`th that trains, and
  // when all is done, which is steps().
  bool checkpoint_due(std::uint64_t step) const;
  // Throws Error{kDamaged} for numbers that make no plan, or one of more than anybody could train, or of larger steps
  // than may travel to and from a net that gives `width` numbers a row.
  void check(std::uint64_t width) const;

  bool operator==(const VerticalPlan&) const = default;
};

}  // namespace muster::federated
