// Fine-tuning in a session: frozen parts keep their bits, rates differ by group, and all of it by the epoch alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "muster/base/error.h"
#include "muster/data/permutation.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/trainer/session.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

using strategies::AllReduce;
using strategies::LocalSgd;
using strategies::ParameterServer;
using strategies::SharedSync;
using strategies::StrategyChoice;

namespace F = torch::nn::functional;
using testing::BatchNormNet;
using testing::line_data;

using Bits = std::map<std::string, std::vector<std::byte>>;

Bits bits_of(const torch::nn::Module& net) {
  Bits bits;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const torch::Tensor values = item.value().detach().contiguous();
      const auto* const begin = static_cast<const std::byte*>(values.data_ptr());
      bits[item.key()] = {begin, begin + values.nbytes()};
    }
  };
  add(net.named_parameters());
  add(net.named_buffers());
  return bits;
}

std::vector<std::string> changed(const Bits& before, const Bits& after) {
  std::vector<std::string> names;
  for (const auto& item : before) {
    if (after.at(item.first) != item.second) names.push_back(item.first);
  }
  return names;
}

SessionOptions options(std::uint64_t lanes, compute::Tuning tuning) {
  SessionOptions o;
  o.batch = 8;
  o.lanes = lanes;
  o.seed = 3;
  o.tuning = std::move(tuning);
  return o;
}

void train_epoch(Session& session, BatchNormNet& net, const std::shared_ptr<const data::Dataset>& dataset) {
  net.train();  // as the trainer does after each evaluation
  for (Lane& lane : session.lanes(dataset))
    lane.backward(F::cross_entropy(net.forward(lane.data), lane.target));
}

const compute::Sgd kSgd{.lr = 0.05, .momentum = 0.9, .dampening = 0, .weight_decay = 1e-2};

TEST(Tuning, FrozenPartsKeepEveryBitAndThawWithTheirEpoch) {
  for (const compute::OptimizerOptions& optimizer :
       {compute::OptimizerOptions(kSgd), compute::OptimizerOptions(compute::AdamW{}),
        compute::OptimizerOptions(compute::Lamb{})}) {
    const auto dataset = line_data(40);
    auto net = testing::make_net<BatchNormNet>(1);
    compute::Tuning tuning;
    tuning.freeze = {"first.*", "norm.*"};
    tuning.unfreeze = {{"norm.*", 2}};
    Session session(net, optimizer, options(2, tuning));
    const Bits start = bits_of(*net);
    train_epoch(session, *net, dataset);
    train_epoch(session, *net, dataset);
    const Bits frozen = bits_of(*net);
    EXPECT_THAT(changed(start, frozen), ::testing::UnorderedElementsAre("second.weight", "second.bias"));
    train_epoch(session, *net, dataset);
    EXPECT_THAT(changed(frozen, bits_of(*net)),
                ::testing::UnorderedElementsAre("second.weight", "second.bias", "norm.weight", "norm.bias",
                                                "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  }
}

TEST(Tuning, ABatchNormThatIsFrozenInPartTrains) {
  const auto dataset = line_data(16);
  auto net = testing::make_net<BatchNormNet>(1);
  compute::Tuning tuning;
  tuning.freeze = {"norm.weight", "norm.running_var"};
  Session session(net, kSgd, options(1, tuning));
  const Bits start = bits_of(*net);
  train_epoch(session, *net, dataset);
  const std::vector<std::string> names = changed(start, bits_of(*net));
  EXPECT_THAT(names, ::testing::Contains("norm.running_mean"));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("norm.weight")));
  EXPECT_THAT(names, ::testing::Not(::testing::Contains("norm.running_var")));
}

// The plain LibTorch loop with a group for each part, over the same samples in the same order.
TEST(Tuning, RatesAndDecaysByPatternAreParameterGroupsOfLibTorch) {
  const auto dataset = line_data(53);
  auto ours = testing::make_net<BatchNormNet>(1);
  auto theirs = testing::make_net<BatchNormNet>(1);
  compute::Tuning tuning;
  tuning.lr_factors = {{"*", 0.5}, {"first.*", 0.1}, {"norm.*", 2}};
  tuning.decay_factors = {{"norm.*", 0}, {"second.*", 3}};
  const SessionOptions o = options(1, tuning);
  Session session(ours, kSgd, o);
  const auto group = [&](const std::vector<torch::Tensor>& parameters, double lr, double decay) {
    return torch::optim::OptimizerParamGroup(
        parameters,
        std::make_unique<torch::optim::SGDOptions>(torch::optim::SGDOptions(lr).momentum(0.9).weight_decay(decay)));
  };
  torch::optim::SGD optimizer(
      {group(theirs->first->parameters(), 0.005, 1e-2), group(theirs->norm->parameters(), 0.1, 0),
       group(theirs->second->parameters(), 0.025, 3e-2)},
      torch::optim::SGDOptions(1));
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    train_epoch(session, *ours, dataset);
    const data::Permutation order(dataset->size(), o.seed, epoch);
    for (std::uint64_t begin = 0; begin < dataset->size(); begin += o.batch) {
      const auto count = static_cast<std::int64_t>(std::min(o.batch, dataset->size() - begin));
      torch::Tensor input = torch::empty({count, 6});
      torch::Tensor target = torch::empty({count}, torch::kInt64);
      for (std::int64_t i = 0; i < count; ++i) {
        target[i] = dataset->read(order(begin + static_cast<std::uint64_t>(i)), {input.data_ptr<float>() + i * 6, 6});
      }
      optimizer.zero_grad();
      F::cross_entropy(theirs->forward(input), target).backward();
      optimizer.step();
    }
  }
  const auto expected = theirs->named_parameters();
  for (const auto& item : ours->named_parameters())
    EXPECT_TRUE(torch::allclose(item.value(), expected[item.key()], 1e-5, 1e-6)) << item.key();
}

TEST(Tuning, AResumedSessionDecidesAsOneThatWentOn) {
  const auto dataset = line_data(40);
  compute::Tuning tuning;
  tuning.freeze = {"first.*", "norm.*"};
  tuning.unfreeze = {{"*", 2}};
  tuning.lr_factors = {{"first.*", 0.1}};
  const testing::TemporaryFolder sandbox;
  const auto through = [&](int epochs, bool resume, bool save) {
    auto net = testing::make_net<BatchNormNet>(1);
    Session session(net, kSgd, options(2, tuning));
    if (resume) {
      EXPECT_TRUE(session.resume(sandbox.path() / "c"));
    }
    for (int epoch = 0; epoch < epochs; ++epoch)
      train_epoch(session, *net, dataset);
    if (save) session.checkpoint(sandbox.path() / "c");
    return session.weights_hash();
  };
  const std::string straight = through(4, false, false);
  through(1, false, true);
  through(1, true, true);
  EXPECT_EQ(through(2, true, false), straight);
}

TEST(Tuning, AnyNumberOfWorkersGivesTheSameBits) {
  const auto dataset = line_data(40);
  compute::Tuning tuning;
  tuning.freeze = {"first.weight", "norm.*"};
  tuning.unfreeze = {{"norm.*", 1}};
  tuning.lr_factors = {{"second.*", 0.3}};
  const auto train = [&](int workers, const StrategyChoice& strategy) {
    std::vector<std::shared_ptr<BatchNormNet>> nets;  // here, because threads would share the generator
    for (int rank = 0; rank < workers; ++rank)
      nets.push_back(testing::make_net<BatchNormNet>(1));
    const std::vector<std::byte> before = bits_of(*nets[0]).at("first.weight");
    std::string hash;
    testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
      SessionOptions o = options(4, tuning);
      o.strategy = strategy;
      o.group = group;
      BatchNormNet& net = *nets[static_cast<std::size_t>(rank)];
      Session session(nets[static_cast<std::size_t>(rank)], kSgd, o);
      while (session.cursor().epoch < 2) {
        session.step(dataset,
                     [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
      }
      session.synchronize();
      EXPECT_EQ(bits_of(net).at("first.weight"), before) << strategy.name();
      if (rank == 0) hash = session.weights_hash();
      group.barrier();
    });
    return hash;
  };
  const std::string alone = train(1, SharedSync{});
  EXPECT_EQ(train(2, SharedSync{}), alone);
  EXPECT_EQ(train(3, SharedSync{}), alone);
  EXPECT_EQ(train(2, AllReduce{}), alone);
  train(3, LocalSgd{});  // other bits by design; what is frozen stays there too
}

// What a user does to parameters between epochs, and what Tuning does by itself.
enum class Frozen { kByUser, kByTuning };

struct Trained {
  StrategyChoice strategy;
  int workers = 1;
  std::uint64_t lanes = 4;
};

// Two epochs with first.* frozen in the first of them; the weights. `third`, with another epoch in which it is frozen
// again.
std::string thaw(const Trained& how, Frozen frozen, bool third = false) {
  const auto dataset = line_data(40);
  compute::Tuning tuning;
  if (frozen == Frozen::kByTuning) {
    tuning.freeze = {"first.*"};
    tuning.unfreeze = {{"first.*", 1}};
  }
  std::vector<std::shared_ptr<BatchNormNet>> nets;  // here, because threads would share the generator
  for (int rank = 0; rank < how.workers; ++rank)
    nets.push_back(testing::make_net<BatchNormNet>(1));
  std::vector<std::string> hashes(nets.size());
  testing::run_group(how.workers, testing::Network::kShm, [&](int rank, comm::Group group) {
    SessionOptions o = options(how.lanes, tuning);
    o.strategy = how.strategy;
    o.group = group;
    BatchNormNet& net = *nets[static_cast<std::size_t>(rank)];
    const auto set_trains = [&](bool trains) {
      if (frozen != Frozen::kByUser) return;
      for (torch::Tensor& parameter : net.first->parameters())
        parameter.requires_grad_(trains);
    };
    const auto train_until = [&](Session& session, std::uint64_t epoch) {
      while (session.cursor().epoch < epoch) {
        session.step(dataset,
                     [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
      }
      session.synchronize();
    };
    set_trains(false);
    const Bits start = bits_of(net);
    Session session(nets[static_cast<std::size_t>(rank)], kSgd, o);
    train_until(session, 1);
    EXPECT_EQ(bits_of(net).at("first.weight"), start.at("first.weight")) << how.strategy.name();
    set_trains(true);
    train_until(session, 2);
    const Bits thawed = bits_of(net);
    EXPECT_NE(thawed.at("first.weight"), start.at("first.weight")) << how.strategy.name();
    if (third) {
      set_trains(false);
      train_until(session, 3);
      EXPECT_EQ(bits_of(net).at("first.weight"), thawed.at("first.weight")) << how.strategy.name();
      EXPECT_NE(bits_of(net).at("second.weight"), thawed.at("second.weight")) << how.strategy.name();
    }
    hashes[static_cast<std::size_t>(rank)] = session.weights_hash();
    group.barrier();
  });
  for (const std::string& hash : hashes)
    EXPECT_EQ(hash, hashes.front()) << how.strategy.name() << ", " << how.workers << " workers";
  return hashes.front();
}

TEST(Tuning, AParameterThatIsUnfrozenAfterTheSessionBeganTrains) {
  for (const Trained& how :
       {Trained{SharedSync{}, 1, 1}, Trained{SharedSync{}, 1, 4}, Trained{SharedSync{}, 2, 4},
        Trained{AllReduce{}, 1, 1}, Trained{AllReduce{}, 2, 2}, Trained{AllReduce{}, 2, 4},
        Trained{AllReduce{.overlap = true}, 2, 2}, Trained{LocalSgd{.period = 2}, 1, 2},
        Trained{LocalSgd{.period = 2}, 2, 4}, Trained{ParameterServer{}, 1, 1}, Trained{ParameterServer{}, 2, 4}}) {
    EXPECT_EQ(thaw(how, Frozen::kByUser), thaw(how, Frozen::kByTuning))
        << how.strategy.name() << ", " << how.workers << " workers, " << how.lanes << " lanes";
  }
  const std::string alone = thaw({SharedSync{}}, Frozen::kByUser, true);
  EXPECT_EQ(thaw({SharedSync{}, 2}, Frozen::kByUser, true), alone);
  EXPECT_EQ(thaw({AllReduce{}, 2}, Frozen::kByUser, true), alone);
  EXPECT_EQ(thaw({ParameterServer{}, 2}, Frozen::kByUser, true), alone);
  thaw({LocalSgd{.period = 2}, 2}, Frozen::kByUser, true);
}

TEST(Tuning, AGradientOfWhatIsFrozenForTheWholeJobIsRefusedByName) {
  auto net = testing::make_net<BatchNormNet>(1);
  compute::Tuning tuning;
  tuning.freeze = {"first.weight"};
  Session session(net, kSgd, options(2, tuning));
  const torch::Tensor start = net->first->weight.detach().clone();
  net->first->weight.requires_grad_(true);
  try {
    train_epoch(session, *net, line_data(40));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("first.weight"));
  }
  EXPECT_TRUE(torch::equal(net->first->weight, start));
}

TEST(Tuning, PatternsThatFitNothingEndTheSessionBeforeItBegins) {
  compute::Tuning tuning;
  tuning.freeze = {"frist.*"};
  try {
    Session session(testing::make_net<BatchNormNet>(1), kSgd, options(1, tuning));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("frist.*"));
  }
}

}  // namespace
}  // namespace muster::trainer
