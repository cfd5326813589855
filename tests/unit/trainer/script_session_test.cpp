// A TorchScript model in a session: it trains as the plain loop over the script does, and stops and goes on as others
// do.
#include <gtest/gtest.h>

#include <torch/script.h>

#include "muster/data/permutation.h"
#include "muster/model/script_net.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/session.h"
#include "support/sandbox.h"
#include "support/scripts.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

SessionOptions options(std::uint64_t lanes) {
  SessionOptions o;
  o.batch = 16;
  o.lanes = lanes;
  o.seed = 3;
  return o;
}

void train(Session& session, model::Net& net, const std::shared_ptr<const data::Dataset>& dataset, int steps) {
  for (int i = 0; i < steps; ++i) {
    session.step(dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
  }
}

TEST(ScriptSession, FollowsThePlainLoopOverTheScript) {
  const testing::TemporaryFolder folder;
  testing::save_script_classifier(folder / "net.ts", 6, 3, 0);
  const auto dataset = testing::line_data(64);
  const auto net = model::load_script(folder / "net.ts");
  Session session(net, compute::Sgd{.lr = 0.1, .momentum = 0.9}, options(1));
  train(session, *net, dataset, 8);

  torch::jit::Module plain = torch::jit::load((folder / "net.ts").string());
  plain.train();
  std::vector<torch::Tensor> parameters;
  for (const auto& parameter : plain.parameters())
    parameters.push_back(parameter);
  torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (std::uint64_t step = 0; step < 8; ++step) {
    const data::Permutation order(64, 3, step / 4);
    torch::Tensor input = torch::empty({16, 6});
    torch::Tensor target = torch::empty({16}, torch::kInt64);
    for (std::uint64_t i = 0; i < 16; ++i) {
      target[static_cast<std::int64_t>(i)] =
          dataset->read(order(step % 4 * 16 + i), {input.data_ptr<float>() + i * 6, 6});
    }
    optimizer.zero_grad();
    F::cross_entropy(plain.forward({input}).toTensor(), target).backward();
    optimizer.step();
  }
  const auto ours = net->named_parameters();
  for (const auto& item : plain.named_parameters())
    EXPECT_TRUE(torch::allclose(ours[item.name], item.value, 1e-5, 1e-6)) << item.name;
  for (const auto& item : plain.named_buffers())
    EXPECT_TRUE(torch::allclose(net->named_buffers()[item.name], item.value, 1e-5, 1e-6)) << item.name;
}

TEST(ScriptSession, DropoutBelongsToTheLane) {
  const testing::TemporaryFolder folder;
  testing::save_script_classifier(folder / "net.ts", 6, 3, 0.5);
  const auto dataset = testing::line_data(64);
  std::vector<std::string> hashes;
  for (const double verify_rate : {0.0, 1.0}) {  // every lane once more, with the same numbers or an error
    const auto net = model::load_script(folder / "net.ts");
    SessionOptions o = options(4);
    o.verify_rate = verify_rate;
    Session session(net, compute::Adam{.lr = 0.01}, o);
    for (int step = 0; step < 6; ++step) {
      torch::rand({7 + step});  // somebody else draws numbers between the steps
      train(session, *net, dataset, 1);
    }
    hashes.push_back(session.weights_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(ScriptSession, ACheckpointHoldsAllOfIt) {
  const testing::TemporaryFolder folder;
  testing::save_script_classifier(folder / "net.ts", 6, 3, 0.5, /*seed=*/1);
  testing::save_script_classifier(folder / "other.ts", 6, 3, 0.5, /*seed=*/2);
  const auto dataset = testing::line_data(64);
  const auto whole_net = model::load_script(folder / "net.ts");
  Session whole(whole_net, compute::Adam{.lr = 0.01}, options(4));
  train(whole, *whole_net, dataset, 9);
  {
    const auto net = model::load_script(folder / "net.ts");
    Session first(net, compute::Adam{.lr = 0.01}, options(4));
    train(first, *net, dataset, 5);
    first.checkpoint(folder / "checkpoints");
  }
  const auto net = model::load_script(folder / "other.ts");  // all of its weights come from the checkpoint
  Session second(net, compute::Adam{.lr = 0.01}, options(4));
  ASSERT_TRUE(second.resume(folder / "checkpoints"));
  // Evaluation in between switches the script's mode and puts it back.
  evaluate(
      *net, [&](const torch::Tensor& x) { return net->forward(x); }, dataset);
  train(second, *net, dataset, 4);
  EXPECT_EQ(second.weights_hash(), whole.weights_hash());
}

}  // namespace
}  // namespace muster::trainer
