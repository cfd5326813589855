// Tensor teams: the workers that compute each layer of a model together (tensor parallelism; Shoeybi et al.,
// "Megatron-LM", 2019), and what they do to the activations between their parts.
//
// An activation is either whole, and then the same bits with every member, or divided. enter() and sum() are the ways
// from one to the other: what goes into divided layers enters, what comes out of them is summed. In backward each does
// what the other one does in forward.
//
//   whole -> enter() -> columns of one layer -> activation, dropout -> rows of the next -> sum() -> whole
//
// Sums are made in the order of members (comm/combine.h), so every run has the same bits; they are those of one process
// within rounding. Random numbers are drawn for the whole tensor and each member takes its part, so dropout is that of
// one process, too. A team of one is the identity. Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <torch/torch.h>

#include "muster/comm/group.h"
#include "muster/model/shard.h"

namespace muster::model {

class TensorTeam {
 public:
  // Called before and after this member waits for others, with whether it waits.
  using Watch = std::function<void(bool waits)>;

  TensorTeam() = default;  // of one
  TensorTeam(comm::Group group, std::chrono::seconds timeout, Watch watch = {});

  std::size_t member() const;
  std::size_t size() const;
  // For how long exchanges with others have taken, waiting included, since the team was made.
  double seconds() const;
  // This member's part of so many channels, heads, words.
  Share share(std::int64_t size, std::int64_t unit = 1) const { return share_of(size, unit, member(), this->size()); }

  // Both throw what groups throw; kTimeout after the time-out given.
  void all_reduce(torch::Tensor& data, comm::Reduction reduction) const;  // dense fp32 or int64, in place
  void barrier() const;

  // x as it is; backward: the sum of all members' gradients.
  torch::Tensor enter(const torch::Tensor& x) const;
  // The sum of all members' x; backward: the gradient as it is.
  torch::Tensor sum(const torch::Tensor& x) const;
  // The linear layer of which each member has some columns of `weight` (its inputs) and some channels of x: the sum of
  // the products, and then the bias, which all have.
  torch::Tensor sum_linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias) const;
  // The table of `words` rows of which each member has its share; backward as sum().
  torch::Tensor embedding(const torch::Tensor& tokens, const torch::Tensor& weight, std::int64_t words) const;
  // Dropout of an x of which each member has its share of `dimension`, `size` being that of the whole: what
  // torch::dropout() makes of the whole x.
  torch::Tensor dropout(const torch::Tensor& x, double probability, bool training, std::int64_t dimension,
                        std::int64_t size, std::int64_t unit = 1) const;

  // Of scores (rows x this member's share of `classes`): the mean cross entropy over the rows, as
  // torch::nn::functional::cross_entropy, and the class of the highest score in each row, the first one of several.
  // Every member gets all of it; scores are never brought together.
  torch::Tensor cross_entropy(const torch::Tensor& scores, const torch::Tensor& target, std::int64_t classes,
                              double smoothing) const;
  torch::Tensor best_class(const torch::Tensor& scores, std::int64_t classes) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // null: a team of one
};

}  // namespace muster::model
