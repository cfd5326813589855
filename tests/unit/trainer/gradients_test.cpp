// The two calls of programs that keep their own optimizer, against one process with the whole batch.
#include <gtest/gtest.h>

#include <vector>

#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/trainer/worker.h"
#include "muster/trainer/worker_place.h"
#include "support/errors.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;
using testing::BatchNormNet;
using testing::LinearNet;
using testing::make_net;
using testing::Network;
using testing::run_group;

constexpr std::int64_t kShard = 8;  // samples of a worker and step

Worker worker_of(int rank, const comm::Group& group) {
  return Worker(std::make_shared<WorkerPlace>(launch::World{rank, group.size(), "test", ""}, group));
}

// The batch of a step, the same wherever it is made: no random numbers, because ranks are threads of one generator.
torch::Tensor inputs(int step, std::int64_t samples) {
  return torch::sin(torch::arange(samples * 6, torch::kFloat32).reshape({samples, 6}) * 1.7 + step);
}
torch::Tensor targets(std::int64_t samples) {
  return torch::arange(samples).remainder(3);
}

template <typename Net>
std::vector<std::shared_ptr<Net>> nets_of(int ranks, bool alike) {
  std::vector<std::shared_ptr<Net>> nets;
  for (int rank = 0; rank < ranks; ++rank)
    nets.push_back(make_net<Net>(alike ? 1 : static_cast<std::uint64_t>(rank + 1)));
  return nets;
}

TEST(AllReduceGradients, TrainsAsOneProcessWithTheWholeBatch) {
  for (const int ranks : {1, 2, 3}) {
    const std::int64_t all = ranks * kShard;
    const auto theirs = make_net<LinearNet>(1);
    torch::optim::SGD optimizer(theirs->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      F::cross_entropy(theirs->forward(inputs(step, all)), targets(all)).backward();
      optimizer.step();
    }
    const auto nets = nets_of<LinearNet>(ranks, true);
    run_group(ranks, Network::kShm, [&](int rank, comm::Group group) {
      const Worker worker = worker_of(rank, group);
      LinearNet& net = *nets[static_cast<std::size_t>(rank)];
      torch::optim::SGD own(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 5; ++step) {
        own.zero_grad();
        const auto shard = [&](const torch::Tensor& whole) { return whole.narrow(0, rank * kShard, kShard); };
        F::cross_entropy(net.forward(shard(inputs(step, all))), shard(targets(all))).backward();
        worker.all_reduce_gradients(net);
        own.step();
      }
    });
    for (const auto& net : nets) {
      for (const auto& item : net->named_parameters()) {
        EXPECT_TRUE(torch::allclose(item.value(), theirs->named_parameters()[item.key()], 1e-5, 1e-6))
            << item.key() << ", " << ranks << " ranks";
        EXPECT_TRUE(torch::equal(item.value(), nets.front()->named_parameters()[item.key()])) << "the same bits";
      }
    }
  }
}

// One weight under two names, one that is frozen, and two that only some or no workers use.
struct OddNet final : torch::nn::Module {
  OddNet() {
    weight = register_parameter("weight", torch::ones({3}));
    register_parameter("same", weight);
    frozen = register_parameter("frozen", torch::ones({3}), false);
    some = register_parameter("some", torch::ones({3}));
    none = register_parameter("none", torch::ones({3}));
  }
  torch::Tensor weight, frozen, some, none;
};

TEST(AllReduceGradients, TakesTheMeanOverAllWorkersAlsoOfGradientsThatSomeDoNotHave) {
  for (const int ranks : {2, 3}) {
    run_group(ranks, Network::kShm, [&](int rank, comm::Group group) {
      OddNet net;
      torch::Tensor loss = (net.weight * net.frozen).sum() * (rank + 1);
      if (rank == ranks - 1) loss = loss + net.some.sum() * 6;
      loss.backward();
      const torch::Tensor held = net.weight.grad();
      worker_of(rank, group).all_reduce_gradients(net);
      EXPECT_TRUE(torch::allclose(net.weight.grad(), torch::full({3}, (ranks + 1) / 2.0F)));
      EXPECT_TRUE(held.is_same(net.weight.grad())) << "in place";
      ASSERT_TRUE(net.some.grad().defined());
      EXPECT_TRUE(torch::allclose(net.some.grad(), torch::full({3}, 6.0F / static_cast<float>(ranks))));
      EXPECT_FALSE(net.none.grad().defined());
      EXPECT_FALSE(net.frozen.grad().defined());
    });
  }
}

TEST(AllReduceGradients, RefusesWorkersThatStartFromDifferentParameters) {
  const auto nets = nets_of<LinearNet>(3, false);
  run_group(3, Network::kShm, [&](int rank, comm::Group group) {
    LinearNet& net = *nets[static_cast<std::size_t>(rank)];
    F::cross_entropy(net.forward(inputs(0, kShard)), targets(kShard)).backward();
    try {
      worker_of(rank, group).all_reduce_gradients(net);
      ADD_FAILURE() << "rank " << rank;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      EXPECT_NE(std::string(error.what()).find("broadcast_parameters"), std::string::npos) << error.what();
    }
  });
}

TEST(BroadcastParameters, GivesTheFirstWorkersParametersAndBuffersToAll) {
  for (const int ranks : {1, 2, 3}) {
    const auto nets = nets_of<BatchNormNet>(ranks, false);
    for (int rank = 0; rank < ranks; ++rank)
      nets[static_cast<std::size_t>(rank)]->forward(inputs(rank, kShard));  // other running statistics on each
    const auto first = make_net<BatchNormNet>(1);
    first->forward(inputs(0, kShard));
    run_group(ranks, Network::kShm, [&](int rank, comm::Group group) {
      BatchNormNet& net = *nets[static_cast<std::size_t>(rank)];
      const torch::Tensor held = net.first->weight;
      worker_of(rank, group).broadcast_parameters(net);
      for (const auto& item : net.named_parameters())
        EXPECT_TRUE(torch::equal(item.value(), first->named_parameters()[item.key()])) << item.key();
      for (const auto& item : net.named_buffers())
        EXPECT_TRUE(torch::equal(item.value(), first->named_buffers()[item.key()])) << item.key();
      EXPECT_TRUE(held.is_same(net.first->weight)) << "in place";
      EXPECT_TRUE(held.requires_grad());
    });
  }
}

TEST(BroadcastParameters, ReachesTensorsThatAreNotContiguous) {
  run_group(2, Network::kShm, [](int rank, comm::Group group) {
    torch::nn::Linear net(2, 3);
    net->weight.set_data(torch::arange(6, torch::kFloat32).reshape({2, 3}).t() * (rank + 1));
    worker_of(rank, group).broadcast_parameters(*net);
    EXPECT_TRUE(torch::equal(net->weight, torch::arange(6, torch::kFloat32).reshape({2, 3}).t()));
  });
}

TEST(AllReduceGradients, WorkersWithFewerBatchesTakePartUntilAllAreDone) {
  // Rank r has 3 - r batches: what each trains is its own part of inputs(turn).
  const int ranks = 3;
  const auto batch_of = [](int turn, int rank) {
    return inputs(turn, ranks * kShard).narrow(0, rank * kShard, kShard);
  };
  const auto theirs = make_net<LinearNet>(1);
  torch::optim::SGD optimizer(theirs->parameters(), torch::optim::SGDOptions(0.1));
  for (int turn = 0; turn < ranks; ++turn) {
    optimizer.zero_grad();
    const int with_batch = ranks - turn;
    for (int rank = 0; rank < with_batch; ++rank)
      (F::cross_entropy(theirs->forward(batch_of(turn, rank)), targets(kShard)) / with_batch).backward();
    optimizer.step();
  }
  const auto nets = nets_of<LinearNet>(ranks, true);
  std::vector<int> turns(ranks);
  run_group(ranks, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    LinearNet& net = *nets[static_cast<std::size_t>(rank)];
    torch::optim::SGD own(net.parameters(), torch::optim::SGDOptions(0.1));
    int& turn = turns[static_cast<std::size_t>(rank)];
    for (; worker.uneven(turn < ranks - rank); ++turn) {
      own.zero_grad();
      if (turn < ranks - rank) F::cross_entropy(net.forward(batch_of(turn, rank)), targets(kShard)).backward();
      worker.all_reduce_gradients(net);
      own.step();
    }
  });
  EXPECT_EQ(turns, (std::vector<int>{3, 3, 3}));
  for (const auto& net : nets) {
    for (std::size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(torch::equal(net->parameters()[i], nets[0]->parameters()[i]));
      EXPECT_LT((net->parameters()[i] - theirs->parameters()[i]).abs().max().item<double>(), 1e-6);
    }
  }
}

TEST(AllReduceGradients, OfSeveralModulesEachIsComparedAtItsFirstCall) {
  const auto alike = nets_of<LinearNet>(3, true);
  const auto differ = nets_of<LinearNet>(3, false);
  run_group(3, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    const auto number = static_cast<std::size_t>(rank);
    for (const auto& net : {alike[number], differ[number]})
      F::cross_entropy(net->forward(inputs(rank, kShard)), targets(kShard)).backward();
    worker.all_reduce_gradients(*alike[number]);
    worker.all_reduce_gradients(*alike[number]);
    EXPECT_THROW(worker.all_reduce_gradients(*differ[number]), Error) << "rank " << rank;
  });
}

struct SharingNet final : torch::nn::Module {
  explicit SharingNet(torch::Tensor weight) : shared(register_parameter("shared", std::move(weight))) {
    own = register_parameter("own", torch::ones({2}));
  }
  torch::Tensor shared, own;
};

TEST(AllReduceGradients, OfSeveralModulesInATurnHaveTheMeanOverThoseWithABatch) {
  run_group(3, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    // Two modules that share a parameter. Rank 2 has no batch, and gradients that are left from before.
    const torch::NoGradGuard no_grad;
    const auto first = std::make_shared<SharingNet>(torch::ones({3}));
    const auto second = std::make_shared<SharingNet>(first->shared);
    for (const auto& net : {first, second})
      for (torch::Tensor& parameter : net->parameters())
        parameter.mutable_grad() = torch::full_like(parameter, rank == 2 ? 100 : rank + 1);
    ASSERT_TRUE(worker.uneven(rank != 2));
    worker.all_reduce_gradients(*first);
    worker.all_reduce_gradients(*second);
    for (const auto& net : {first, second})
      for (const torch::Tensor& parameter : net->parameters())
        EXPECT_TRUE(torch::allclose(parameter.grad(), torch::full_like(parameter, 1.5)));
    ASSERT_FALSE(worker.uneven(false));
    for (torch::Tensor& parameter : first->parameters())
      parameter.mutable_grad() = torch::full_like(parameter, rank + 1);
    worker.all_reduce_gradients(*first);
    EXPECT_TRUE(torch::allclose(first->own.grad(), torch::full({2}, 2.0F))) << "after the loop all have one";
  });
}

TEST(WorkerTensors, AreCombinedInPlaceAlsoWhereTheyHaveGaps) {
  run_group(3, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    torch::Tensor wide = torch::full({2, 3}, rank, torch::kFloat64);
    torch::Tensor column = wide.select(1, 1);
    worker.all_reduce(column);
    EXPECT_TRUE(torch::equal(wide.select(1, 1), torch::full({2}, 1.0, torch::kFloat64)));
    EXPECT_TRUE(torch::equal(wide.select(1, 0), torch::full({2}, rank, torch::kFloat64))) << "left alone";
    torch::Tensor count = torch::full({1}, rank + 1, torch::kInt64);
    worker.all_reduce(count, comm::Reduction::kSum);
    EXPECT_EQ(count.item<std::int64_t>(), 6);
    torch::Tensor half = torch::full({4}, rank, torch::kBFloat16);
    worker.all_reduce(half, comm::Reduction::kMax);
    EXPECT_TRUE(torch::equal(half, torch::full({4}, 2, torch::kBFloat16)));
    torch::Tensor given = torch::full({3}, rank, torch::kInt32);
    worker.broadcast(given, 2);
    EXPECT_TRUE(torch::equal(given, torch::full({3}, 2, torch::kInt32)));
    torch::Tensor flag = torch::ones({1}, torch::kBool);
    try {
      worker.all_reduce(flag);
      ADD_FAILURE() << "a type that cannot be combined";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    }
  });
}

TEST(WorkerTensors, AnOptimizersStateGoesToAll) {
  const int ranks = 2;
  const auto nets = nets_of<LinearNet>(ranks, true);
  std::vector<std::unique_ptr<torch::optim::Adam>> optimizers;
  for (const auto& net : nets)
    optimizers.push_back(std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01)));
  // The first one has trained before: its moments and its rate are others.
  for (int step = 0; step < 3; ++step) {
    optimizers[0]->zero_grad();
    F::cross_entropy(nets[0]->forward(inputs(step, kShard)), targets(kShard)).backward();
    optimizers[0]->step();
  }
  static_cast<torch::optim::AdamOptions&>(optimizers[0]->param_groups()[0].options()).lr(0.5);
  run_group(ranks, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    const auto place = static_cast<std::size_t>(rank);
    worker.broadcast_parameters(*nets[place]);
    worker.broadcast_optimizer(*optimizers[place]);
  });
  // The same step from the same state: the same bits.
  for (int rank = 0; rank < ranks; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    optimizers[place]->zero_grad();
    F::cross_entropy(nets[place]->forward(inputs(9, kShard)), targets(kShard)).backward();
    optimizers[place]->step();
  }
  for (std::size_t i = 0; i < nets[0]->parameters().size(); ++i)
    EXPECT_TRUE(torch::equal(nets[0]->parameters()[i], nets[1]->parameters()[i])) << i;
}

// As a program that is started again does it.
TEST(WorkerCheckpoint, GivesModelOptimizerAndStepToAllWorkers) {
  const testing::TemporaryFolder folder;
  const auto train = [](LinearNet& net, torch::optim::Optimizer& optimizer, int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      F::cross_entropy(net.forward(inputs(step, kShard)), targets(kShard)).backward();
      optimizer.step();
    }
  };
  const auto whole = make_net<LinearNet>(1);
  torch::optim::Adam all(whole->parameters(), torch::optim::AdamOptions(0.01));
  train(*whole, all, 0, 6);
  const auto nets = nets_of<LinearNet>(2, true);
  run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    torch::optim::Adam optimizer(nets[static_cast<std::size_t>(rank)]->parameters(), torch::optim::AdamOptions(0.01));
    EXPECT_FALSE(worker.resume(folder / "kept", *nets[static_cast<std::size_t>(rank)], optimizer).has_value());
    train(*nets[static_cast<std::size_t>(rank)], optimizer, 0, 3);
    worker.checkpoint(folder / "kept", *nets[static_cast<std::size_t>(rank)], optimizer, 3);
  });
  const auto others = nets_of<LinearNet>(2, false);
  run_group(2, Network::kShm, [&](int rank, comm::Group group) {
    const Worker worker = worker_of(rank, group);
    LinearNet& net = *others[static_cast<std::size_t>(rank)];
    torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(0.5));
    EXPECT_EQ(worker.resume(folder / "kept", net, optimizer), 3U);
    train(net, optimizer, 3, 6);
    EXPECT_TRUE(torch::equal(net.first->weight, whole->first->weight)) << rank;
  });
}

TEST(WorkerCheckpoint, ADamagedOneOrOneOfAnotherModelIsRefusedByAllWorkers) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](ErrorKind kind, const char* words) {
    const auto nets = nets_of<BatchNormNet>(2, true);
    run_group(2, Network::kShm, [&](int rank, comm::Group group) {
      const Worker worker = worker_of(rank, group);
      BatchNormNet& net = *nets[static_cast<std::size_t>(rank)];
      torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.01));
      testing::expect_error(rank == 0 ? kind : ErrorKind::kPeerLost, rank == 0 ? words : "the first worker could not",
                            [&] { worker.resume(folder.path(), net, optimizer); });
    });
  };
  const auto net = make_net<LinearNet>(1);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
  Worker().checkpoint(folder.path(), *net, optimizer, 1);
  refused(ErrorKind::kMismatch, "is of another model or optimizer");
  std::filesystem::resize_file(folder / "checkpoint.pt", 100);
  refused(ErrorKind::kDamaged, "no checkpoint of a program");
}

}  // namespace
}  // namespace muster::trainer
