// SGD against torch::optim::SGD, every combination of its options.
#include "unit/compute/against_torch.h"

namespace muster::compute {
namespace {

void expect_same(const Sgd& options) {
  SCOPED_TRACE(testing::Message() << "momentum " << options.momentum << " dampening " << options.dampening
                                  << " weight_decay " << options.weight_decay << " nesterov " << options.nesterov);
  expect_torch<torch::optim::SGD>(
      options,
      torch::optim::SGDOptions(options.lr)
          .momentum(options.momentum)
          .dampening(options.dampening)
          .weight_decay(options.weight_decay)
          .nesterov(options.nesterov),
      [&options](const Trained& ours, const torch::Tensor& parameter, torch::optim::Optimizer& theirs) {
        if (options.momentum == 0) return;
        expect_near(ours.state(0), state_of<torch::optim::SGDParamState>(theirs, parameter).momentum_buffer(), 2e-6);
      });
}

TEST(SgdTorch, EveryCombinationOfOptions) {
  for (const double momentum : {0.0, 0.9}) {
    for (const double dampening : {0.0, 0.3}) {
      for (const double decay : {0.0, 1e-2}) {
        for (const bool nesterov : {false, true}) {
          if (nesterov && (momentum == 0 || dampening != 0)) continue;  // refused by both
          expect_same({0.05, momentum, dampening, decay, nesterov});
        }
      }
    }
  }
}

TEST(SgdTorch, SameDefaults) {
  const torch::optim::SGDOptions theirs(0.1);
  const Sgd ours;
  EXPECT_EQ(ours.momentum, theirs.momentum());
  EXPECT_EQ(ours.dampening, theirs.dampening());
  EXPECT_EQ(ours.weight_decay, theirs.weight_decay());
  EXPECT_EQ(ours.nesterov, theirs.nesterov());
}

}  // namespace
}  // namespace muster::compute
