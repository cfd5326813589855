// Models whose parameters are double or bfloat16, with their fp32 master copies, and mixed precision.
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/compute/autocast.h"
#include "muster/trainer/session.h"
#include "support/errors.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;
using testing::BatchNormNet;
using testing::line_data;
using testing::make_net;

const std::shared_ptr<const data::Dataset>& samples() {
  static const std::shared_ptr<const data::Dataset> made = line_data(48);
  return made;
}

SessionOptions six_lanes() {
  SessionOptions made;
  made.batch = 12;
  made.lanes = 6;
  made.seed = 3;
  return made;
}

template <typename Net>
std::shared_ptr<Net> net_of(torch::ScalarType type) {
  const auto net = make_net<Net>(1);
  net->to(type);
  return net;
}

void step(Session& session, testing::SmallNet& net, torch::ScalarType type) {
  session.step(samples(), [&](Lane& lane) {
    lane.backward(F::cross_entropy(net.forward(lane.data.to(type)).to(torch::kFloat32), lane.target));
  });
}

struct Scalar : torch::nn::Module {
  explicit Scalar(torch::ScalarType type) {
    weight = register_parameter("weight", torch::ones({3}, type));
    still = register_parameter("still", torch::full({3}, 0.1F).to(type));
  }
  torch::Tensor weight, still;
};

TEST(Precision, ADoubleModelFollowsAPlainLoopInDouble) {
  const auto ours = net_of<testing::LinearNet>(torch::kFloat64);
  const auto theirs = net_of<testing::LinearNet>(torch::kFloat64);
  SessionOptions o = six_lanes();
  o.lanes = 1;
  Session session(ours, compute::Sgd{.lr = 0.1, .momentum = 0.9}, o);
  torch::optim::SGD sgd(theirs->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int count = 0; count < 6; ++count) {
    session.step(samples(), [&](Lane& lane) {
      const auto loss = [&](testing::LinearNet& net) {
        return F::cross_entropy(net.forward(lane.data.to(torch::kFloat64)), lane.target);
      };
      lane.backward(loss(*ours));
      sgd.zero_grad();
      loss(*theirs).backward();
      sgd.step();
    });
  }
  EXPECT_EQ(ours->first->weight.scalar_type(), torch::kFloat64);
  for (std::size_t i = 0; i < theirs->parameters().size(); ++i)
    EXPECT_LT((ours->parameters()[i] - theirs->parameters()[i]).abs().max().item<double>(), 1e-6);
}

// 1 - 0.0001 is 1 in bfloat16: without a master copy such steps would lead nowhere.
TEST(Precision, StepsThatBfloat16CannotSeeAddUpInTheMasterCopy) {
  const auto net = std::make_shared<Scalar>(torch::kBFloat16);
  Session session(net, compute::Sgd{.lr = 1e-4}, six_lanes());
  for (int count = 0; count < 200; ++count)
    session.step(samples(), [&](Lane& lane) { lane.backward(net->weight.sum() + 0 * net->still.sum()); });
  EXPECT_EQ(net->weight.scalar_type(), torch::kBFloat16);
  EXPECT_NEAR(net->weight.to(torch::kFloat32)[0].item<double>(), 0.98, 0.003);
}

TEST(Precision, TheBitsDoNotDependOnTheWorkers) {
  for (const torch::ScalarType type : {torch::kBFloat16, torch::kFloat64}) {
    std::string alone;
    for (const int workers : {1, 2, 3}) {
      std::vector<std::shared_ptr<BatchNormNet>> nets;
      for (int rank = 0; rank < workers; ++rank)
        nets.push_back(net_of<BatchNormNet>(type));
      std::vector<std::string> hashes(static_cast<std::size_t>(workers));
      testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
        BatchNormNet& net = *nets[static_cast<std::size_t>(rank)];
        SessionOptions o = six_lanes();
        o.group = group;
        Session session(nets[static_cast<std::size_t>(rank)], compute::Adam{.lr = 0.01}, o);
        for (int count = 0; count < 6; ++count)
          step(session, net, type);
        hashes[static_cast<std::size_t>(rank)] = session.weights_hash();
        group.barrier();
      });
      if (alone.empty()) alone = hashes[0];
      for (const std::string& hash : hashes)
        EXPECT_EQ(hash, alone) << workers << " workers, " << torch::toString(type);
    }
  }
}

TEST(Precision, ResumingKeepsTheDigitsOfTheMasterCopy) {
  const testing::TemporaryFolder folder;
  const auto run = [&](int steps, bool resume) {
    const auto net = net_of<BatchNormNet>(torch::kBFloat16);
    Session session(net, compute::Sgd{.lr = 0.01}, six_lanes());
    EXPECT_EQ(session.resume(folder.path()), resume);
    for (int count = 0; count < steps; ++count)
      step(session, *net, torch::kBFloat16);
    if (steps == 3) session.checkpoint(folder.path());
    return session.weights_hash();
  };
  run(3, false);
  const std::string resumed = run(2, true);
  std::filesystem::remove_all(folder.path());
  EXPECT_EQ(resumed, run(5, false));
}

TEST(Precision, AfterCommitChangesWhatItWritesToAndNothingElse) {
  const auto net = std::make_shared<Scalar>(torch::kBFloat16);
  const auto plain = std::make_shared<Scalar>(torch::kBFloat16);
  SessionOptions o = six_lanes();
  o.after_commit = [&](const data::Cursor&) { net->still[1].fill_(7); };
  Session session(net, compute::Sgd{.lr = 1e-4}, o);
  Session other(plain, compute::Sgd{.lr = 1e-4}, six_lanes());
  for (int count = 0; count < 100; ++count) {
    session.step(samples(), [&](Lane& lane) { lane.backward(net->weight.sum() + 0 * net->still.sum()); });
    other.step(samples(), [&](Lane& lane) { lane.backward(plain->weight.sum() + 0 * plain->still.sum()); });
  }
  EXPECT_TRUE(torch::equal(net->weight, plain->weight)) << "rounded at every step it would still be 1";
  EXPECT_LT(net->weight[0].item<double>(), 1);
  EXPECT_EQ(net->still[1].item<double>(), 7);
  EXPECT_EQ(net->still[0].item<double>(), plain->still[0].item<double>());
}

TEST(Precision, OtherTypesAreRefusedByName) {
  testing::expect_error(ErrorKind::kUnsupported, "parameter first.weight",
                        [] { Session(net_of<testing::LinearNet>(torch::kFloat16), compute::Sgd{}, six_lanes()); });
}

TEST(Precision, WorkersOfDifferentTypesAreRefused) {
  testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
    SessionOptions o = six_lanes();
    o.group = group;
    testing::expect_error(ErrorKind::kMismatch, "parameter weight's type is", [&] {
      Session(std::make_shared<Scalar>(rank == 0 ? torch::kBFloat16 : torch::kFloat64), compute::Sgd{}, o);
    });
  });
}

TEST(PrecisionDeathTest, WritingToAConvertedParameterEndsTheProgramWithItsName) {
  const auto net = std::make_shared<Scalar>(torch::kBFloat16);
  const Session session(net, compute::Sgd{}, six_lanes());
  const torch::NoGradGuard no_grad;
  EXPECT_DEATH(net->weight.fill_(2), "writes to parameter weight");
}

TEST(Autocast, ComputesProductsInBfloat16WhileItLives) {
  const torch::Tensor a = torch::rand({4, 4});
  {
    const compute::Autocast autocast;
    EXPECT_EQ(torch::matmul(a, a).scalar_type(), torch::kBFloat16);
    {
      const compute::Autocast off(false);
      EXPECT_EQ(torch::matmul(a, a).scalar_type(), torch::kFloat32);
    }
    EXPECT_EQ(torch::matmul(a, a).scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(torch::matmul(a, a).scalar_type(), torch::kFloat32);
}

// LibTorch keeps what it has converted: another lane has to see the weights of its own step.
TEST(Autocast, TrainsWithTheWeightsOfEachStep) {
  const auto net = make_net<testing::LinearNet>(1);
  Session session(net, compute::Sgd{.lr = 0.5}, six_lanes());
  const auto scores_of = [&](const torch::Tensor& data) {
    const compute::Autocast autocast;
    return net->forward(data);
  };
  const torch::Tensor probe = torch::rand({5, 6});
  for (int count = 0; count < 4; ++count) {
    session.step(samples(), [&](Lane& lane) {
      const torch::Tensor scores = scores_of(lane.data);
      EXPECT_EQ(scores.scalar_type(), torch::kBFloat16);
      lane.backward(F::cross_entropy(scores.to(torch::kFloat32), lane.target));
    });
    const torch::NoGradGuard no_grad;
    EXPECT_LT((scores_of(probe).to(torch::kFloat32) - net->forward(probe)).abs().max().item<double>(), 0.05) << count;
  }
}

}  // namespace
}  // namespace muster::trainer
