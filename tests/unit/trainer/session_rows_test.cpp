// Steps on tensors that a program makes itself: against a plain LibTorch loop, with other numbers of workers, resumed,
// and what is refused.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/data/sampling.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/trainer/session.h"
#include "support/errors.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

constexpr std::int64_t kBatch = 10;

struct Made {
  torch::Tensor x;
  torch::Tensor y;
};

Made make(std::uint64_t step) {
  torch::manual_seed(100 + step);
  const torch::Tensor x = torch::rand({kBatch, 3});
  return {x, x.sum(1, true)};
}

torch::nn::Linear new_net() {
  torch::manual_seed(1);
  return torch::nn::Linear(3, 1);
}

SessionOptions rows_options(std::uint64_t lanes) {
  SessionOptions made;
  made.batch = kBatch;
  made.lanes = lanes;
  return made;
}

void train_step(Session& session, torch::nn::Linear& net) {
  const Made made = make(session.cursor().step);
  session.step({made.x, made.y}, [&](Lane& lane) {
    ASSERT_EQ(lane.tensors.size(), 2U);
    lane.backward(torch::mse_loss(net->forward(lane.tensors[0]), lane.tensors[1]));
  });
}

TEST(SessionRows, FollowAPlainLoop) {
  auto ours = new_net();
  auto theirs = new_net();
  Session session(ours.ptr(), compute::Sgd{.lr = 0.1}, rows_options(3));
  torch::optim::SGD sgd(theirs->parameters(), torch::optim::SGDOptions(0.1));
  for (std::uint64_t step = 0; step < 12; ++step) {
    train_step(session, ours);
    const Made made = make(step);
    sgd.zero_grad();
    torch::mse_loss(theirs->forward(made.x), made.y).backward();
    sgd.step();
    EXPECT_LT((ours->weight - theirs->weight).abs().max().item<double>(), 1e-6) << step;
  }
  EXPECT_EQ(session.cursor(), (data::Cursor{12, 0, 12})) << "an epoch is a step";
}

TEST(SessionRows, LanesHaveTheRowsInOrder) {
  auto net = new_net();
  Session session(net.ptr(), compute::Sgd{.lr = 0.1}, rows_options(3));
  const torch::Tensor rows = torch::arange(kBatch);
  std::vector<std::int64_t> seen;
  session.step({rows, torch::ones({kBatch, 3})}, [&](Lane& lane) {
    for (std::int64_t i = 0; i < lane.tensors[0].size(0); ++i)
      seen.push_back(lane.tensors[0][i].item<std::int64_t>());
    lane.backward(net->forward(lane.tensors[1]).mean());
  });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(SessionRows, HaveTheSameBitsForAnyWorkersAndResumed) {
  const testing::TemporaryFolder folder;
  const auto run = [&](int workers, std::uint64_t steps) {
    std::vector<std::string> hashes(static_cast<std::size_t>(workers));
    std::vector<torch::nn::Linear> nets;
    for (int rank = 0; rank < workers; ++rank)
      nets.push_back(new_net());
    // LibTorch's default generator is one for all threads of this test.
    std::vector<Made> all;
    for (std::uint64_t step = 0; step < steps; ++step)
      all.push_back(make(step));
    testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
      auto& net = nets[static_cast<std::size_t>(rank)];
      SessionOptions o = rows_options(5);
      o.group = group;
      Session session(net.ptr(), compute::Adam{.lr = 0.01}, o);
      session.resume(folder / "kept");
      session.meet();
      while (session.cursor().step < steps) {
        const Made& made = all[session.cursor().step];
        session.step({made.x, made.y}, [&](Lane& lane) {
          lane.backward(torch::mse_loss(net->forward(lane.tensors[0]), lane.tensors[1]));
        });
      }
      hashes[static_cast<std::size_t>(rank)] = session.weights_hash();
      if (steps == 4) session.checkpoint(folder / "kept");
      group.barrier();
    });
    return hashes;
  };
  const std::string alone = run(1, 9)[0];
  for (const std::string& hash : run(3, 9))
    EXPECT_EQ(hash, alone);
  run(2, 4);
  EXPECT_EQ(run(1, 9)[0], alone) << "from a checkpoint of two workers";
}

TEST(SessionRows, WhatCannotBeMeantIsRefused) {
  auto net = new_net();
  const auto nothing = [](Lane&) {};
  Session session(net.ptr(), compute::Sgd{.lr = 0.1}, rows_options(2));
  testing::expect_error(ErrorKind::kInvalidInput, "without tensors",
                        [&] { session.step(std::vector<torch::Tensor>{}, nothing); });
  testing::expect_error(ErrorKind::kInvalidInput, "tensor 1 of the step has 9 rows, and the batch is 10", [&] {
    session.step({torch::ones({10, 3}), torch::ones({9})}, nothing);
  });
  testing::expect_error(ErrorKind::kInvalidInput, "has no rows", [&] { session.step({torch::ones({})}, nothing); });
  train_step(session, net);
  testing::expect_error(ErrorKind::kInvalidInput, "on tensors, and not on a data set",
                        [&] { session.step(testing::line_data(50), nothing); });
  auto other = new_net();
  Session on_data(other.ptr(), compute::Sgd{.lr = 0.1}, rows_options(2));
  on_data.meet(testing::line_data(50));
  testing::expect_error(ErrorKind::kInvalidInput, "on a data set, and not on tensors",
                        [&] { train_step(on_data, other); });
  SessionOptions sampled = rows_options(2);
  sampled.sampling = data::Sampling{10, [](std::uint64_t) { return std::vector<std::uint64_t>(10); }};
  auto third = new_net();
  Session by_order(third.ptr(), compute::Sgd{.lr = 0.1}, sampled);
  testing::expect_error(ErrorKind::kInvalidInput, "all rows are used", [&] { train_step(by_order, third); });
}

}  // namespace
}  // namespace muster::trainer
