// Adam and AdamW against torch::optim.
#include "unit/compute/against_torch.h"

namespace muster::compute {
namespace {

template <class State>
void expect_moments(const Trained& ours, const torch::Tensor& parameter, torch::optim::Optimizer& theirs) {
  const State& state = state_of<State>(theirs, parameter);
  expect_near(ours.state(0), state.exp_avg(), 2e-6);
  expect_near(ours.state(1), state.exp_avg_sq(), 2e-6);
}

void expect_same(const Adam& options) {
  expect_torch<torch::optim::Adam>(options,
                                   torch::optim::AdamOptions(options.lr)
                                       .betas(std::make_tuple(options.beta1, options.beta2))
                                       .eps(options.eps)
                                       .weight_decay(options.weight_decay),
                                   expect_moments<torch::optim::AdamParamState>);
}

void expect_same(const AdamW& options) {
  expect_torch<torch::optim::AdamW>(options,
                                    torch::optim::AdamWOptions(options.lr)
                                        .betas(std::make_tuple(options.beta1, options.beta2))
                                        .eps(options.eps)
                                        .weight_decay(options.weight_decay),
                                    expect_moments<torch::optim::AdamWParamState>);
}

TEST(AdamTorch, Defaults) {
  expect_same(Adam{});
  const torch::optim::AdamOptions theirs;
  const Adam ours;
  EXPECT_EQ(ours.lr, theirs.lr());
  EXPECT_EQ(std::make_tuple(ours.beta1, ours.beta2), theirs.betas());
  EXPECT_EQ(ours.eps, theirs.eps());
  EXPECT_EQ(ours.weight_decay, theirs.weight_decay());
}

TEST(AdamTorch, OtherOptions) {
  expect_same(Adam{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3});
  expect_same(Adam{.beta1 = 0});
}

TEST(AdamTorch, WeightDecayGoesThroughTheMoments) {
  expect_same(Adam{.lr = 0.01, .weight_decay = 0.1});
}

TEST(AdamWTorch, Defaults) {
  expect_same(AdamW{});
  const torch::optim::AdamWOptions theirs;
  const AdamW ours;
  EXPECT_EQ(ours.lr, theirs.lr());
  EXPECT_EQ(std::make_tuple(ours.beta1, ours.beta2), theirs.betas());
  EXPECT_EQ(ours.eps, theirs.eps());
  EXPECT_EQ(ours.weight_decay, theirs.weight_decay());
}

TEST(AdamWTorch, WeightDecayShrinksTheParameters) {
  expect_same(AdamW{.lr = 0.01, .weight_decay = 0.5});
  expect_same(AdamW{.lr = 0.01, .weight_decay = 0});
}

}  // namespace
}  // namespace muster::compute
