// The state as named tensors is a copy: training on does not change it.
#include "muster/trainer/training_state.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

TEST(TrainingState, IsASnapshotThatTrainingDoesNotChange) {
  const auto dataset = testing::line_data(64);
  auto net = testing::make_net<testing::BatchNormNet>(1);
  Session session(net, compute::Sgd{.lr = 0.1, .momentum = 0.9}, {.batch = 16});
  const auto step = [&] {
    session.step(dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(net->forward(lane.data), lane.target)); });
  };
  step();
  const std::string hash = session.weights_hash();
  const TrainingState state = capture(session.core());
  step();
  step();
  const testing::TemporaryFolder folder;
  model::CheckpointStore store(folder.path());
  store.save(state.content());
  restore(session.core(), store.load(1));
  EXPECT_EQ(session.weights_hash(), hash);
  EXPECT_EQ(session.cursor().step, 1U);
}

TEST(TrainingState, UsesTheMemoryOfOneThatNobodyNeedsAndOfNoOther) {
  const auto dataset = testing::line_data(64);
  auto net = testing::make_net<testing::BatchNormNet>(1);
  Session session(net, compute::Sgd{.lr = 0.1, .momentum = 0.9}, {.batch = 16});
  const auto step = [&] {
    session.step(dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(net->forward(lane.data), lane.target)); });
  };
  const auto bytes = [](const TrainingState& state) {
    std::string all;
    const model::CheckpointContent content = state.content();
    for (const auto* tensors : {&content.model, &content.optimizer}) {
      for (const model::TensorView& tensor : *tensors)
        all += tensor.name + std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    }
    return all;
  };
  step();
  TrainingState first = capture(session.core());
  const std::byte* const place = first.content().model.front().data.data();
  step();
  const std::string fresh = bytes(capture(session.core()));
  TrainingState second = capture(session.core(), std::move(first));
  EXPECT_EQ(second.content().model.front().data.data(), place);
  EXPECT_EQ(bytes(second), fresh);
  EXPECT_EQ(second.manifest.step, 2U);

  const TrainingState held = second;
  step();
  const TrainingState third = capture(session.core(), std::move(second));
  EXPECT_NE(third.content().model.front().data.data(), place);
  EXPECT_EQ(bytes(held), fresh) << "somebody still held it";
}

TEST(TrainingState, CarriesWhatTheStrategyKeepsBeyond) {
  const auto dataset = testing::line_data(64);
  const SessionOptions options{.batch = 16, .strategy = strategies::LocalSgd{.period = 1, .outer_momentum = 0.9}};
  const auto train = [&](Session& session, testing::BatchNormNet& net, std::uint64_t steps) {
    while (session.cursor().step < steps)
      session.step(dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
  };
  auto net = testing::make_net<testing::BatchNormNet>(1);
  Session straight(net, compute::Sgd{.lr = 0.1}, options);
  train(straight, *net, 3);
  const testing::TemporaryFolder folder;
  model::CheckpointStore store(folder.path());
  store.save(capture(straight.core()).content());
  train(straight, *net, 6);

  auto other = testing::make_net<testing::BatchNormNet>(2);
  Session resumed(other, compute::Sgd{.lr = 0.1}, options);
  restore(resumed.core(), store.load(3));
  EXPECT_EQ(resumed.core().committed().extra_part("outer_momentum").size(),
            straight.core().committed().extra_part("outer_momentum").size());
  train(resumed, *other, 6);
  EXPECT_EQ(resumed.weights_hash(), straight.weights_hash());

  // One that keeps nothing beyond goes on from the same checkpoint.
  auto plain = testing::make_net<testing::BatchNormNet>(3);
  Session without(plain, compute::Sgd{.lr = 0.1}, {.batch = 16});
  restore(without.core(), store.load(3));
  EXPECT_EQ(without.cursor().step, 3U);
}

// A worker of another host, or one that has come later: the first one has the checkpoint, and gives all of it.
TEST(TrainingState, AWorkerThatReceivesItHasWhatTheStrategyKeepsBeyond) {
  const auto dataset = testing::line_data(64);
  const testing::TemporaryFolder folder;
  std::vector<std::shared_ptr<testing::LinearNet>> nets;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    nets.push_back(testing::make_net<testing::LinearNet>(seed));
  testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
    SessionOptions options{.batch = 16, .strategy = strategies::LocalSgd{.period = 1, .outer_momentum = 0.9}};
    options.group = group;
    const auto train = [&](Session& session, testing::LinearNet& net, std::uint64_t steps) {
      while (session.cursor().step < steps)
        session.step(dataset,
                     [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
    };
    const auto& first = nets[static_cast<std::size_t>(rank)];
    Session straight(first, compute::Sgd{.lr = 0.1}, options);
    train(straight, *first, 3);
    model::CheckpointStore store(folder.path());
    if (rank == 0) store.save(capture(straight.core()).content());
    const auto kept = straight.core().committed().extra_part("outer_momentum");
    const std::vector<std::byte> momentum(kept.begin(), kept.end());
    train(straight, *first, 6);

    const auto& second = nets[static_cast<std::size_t>(2 + rank)];
    Session joined(second, compute::Sgd{.lr = 0.1}, options);
    if (rank == 0)
      restore(joined.core(), store.load(3));
    else
      joined.core().receive_state();
    EXPECT_TRUE(std::ranges::equal(joined.core().committed().extra_part("outer_momentum"), momentum));
    EXPECT_TRUE(std::ranges::any_of(momentum, [](std::byte byte) { return byte != std::byte{0}; }));
    EXPECT_EQ(joined.cursor().step, 3U);
    train(joined, *second, 6);
    EXPECT_EQ(joined.weights_hash(), straight.weights_hash());
    group.barrier();
  });
}

TEST(TrainingState, HoldsEveryTensorUnderItsName) {
  auto net = testing::make_net<testing::BatchNormNet>(1);
  Session session(net, compute::Adam{}, {.batch = 16});
  const TrainingState state = capture(session.core());
  const model::CheckpointContent content = state.content();
  const auto find = [](const std::vector<model::TensorView>& tensors, const std::string& name) {
    for (const model::TensorView& tensor : tensors) {
      if (tensor.name == name) return &tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return &tensors.front();
  };
  for (const auto& item : net->named_parameters()) {
    const model::TensorView* tensor = find(content.model, item.key());
    ASSERT_EQ(tensor->shape, item.value().sizes().vec());
    EXPECT_EQ(std::memcmp(tensor->data.data(), item.value().data_ptr(), tensor->data.size()), 0);
    for (const char* slot : {"exp_avg/", "exp_avg_sq/", "updates/"})
      find(content.optimizer, slot + item.key());
  }
  EXPECT_EQ(find(content.model, "norm.num_batches_tracked")->dtype, model::Dtype::kI64);
  EXPECT_EQ(content.model.size(), 6U + 3U);
  EXPECT_EQ(content.optimizer.size(), 6U * 3U);
}

}  // namespace
}  // namespace muster::trainer
