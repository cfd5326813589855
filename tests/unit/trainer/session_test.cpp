// A session against the plain LibTorch loop over the same samples, and against itself: resumed, cut into lanes, read
// ahead.
#include "muster/trainer/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/comm/shm_backend.h"
#include "muster/data/partition/partition.h"
#include "muster/data/permutation.h"
#include "muster/data/synthetic.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/trainer/session_core.h"
#include "support/errors.h"
#include "support/ranks.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;
using testing::BatchNormNet;
using testing::line_data;
using testing::LinearNet;

void train_lane(Lane& lane, testing::SmallNet& net) {
  lane.backward(F::cross_entropy(net.forward(lane.data), lane.target));
}

SessionOptions options(std::uint64_t batch, std::uint64_t lanes) {
  SessionOptions o;
  o.batch = batch;
  o.lanes = lanes;
  o.seed = 3;
  return o;
}

// The plain LibTorch loop over the same samples in the same order.
void train_plain(testing::SmallNet& net, torch::optim::Optimizer& optimizer, const data::Dataset& dataset,
                 const SessionOptions& o, std::uint64_t epochs) {
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const data::Permutation order(dataset.size(), o.seed, epoch);
    for (std::uint64_t begin = 0; begin < dataset.size(); begin += o.batch) {
      const std::uint64_t count = std::min(o.batch, dataset.size() - begin);
      torch::Tensor input = torch::empty({static_cast<std::int64_t>(count), 6});
      torch::Tensor target = torch::empty({static_cast<std::int64_t>(count)}, torch::kInt64);
      for (std::uint64_t i = 0; i < count; ++i) {
        target[static_cast<std::int64_t>(i)] = dataset.read(order(begin + i), {input.data_ptr<float>() + i * 6, 6});
      }
      optimizer.zero_grad();
      F::cross_entropy(net.forward(input), target).backward();
      optimizer.step();
    }
  }
}

TEST(Session, OneLaneFollowsThePlainLibTorchLoop) {
  const auto dataset = line_data(53);  // a short last batch
  auto ours = testing::make_net<BatchNormNet>(1);
  auto theirs = testing::make_net<BatchNormNet>(1);
  const SessionOptions o = options(8, 1);
  Session session(ours, compute::Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3}, o);
  torch::optim::SGD optimizer(theirs->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
  train_plain(*theirs, optimizer, *dataset, o, 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (Lane& lane : session.lanes(dataset))
      train_lane(lane, *ours);
  }
  const auto expected = theirs->named_parameters();
  for (const auto& item : ours->named_parameters()) {
    EXPECT_TRUE(torch::allclose(item.value(), expected[item.key()], 1e-5, 1e-6)) << item.key();
  }
  // Buffers of one lane take no part in any averaging: bit for bit.
  EXPECT_TRUE(torch::allclose(ours->norm->running_mean, theirs->norm->running_mean, 1e-5, 1e-6));
  EXPECT_EQ(ours->norm->num_batches_tracked.item<std::int64_t>(),
            theirs->norm->num_batches_tracked.item<std::int64_t>());
  EXPECT_EQ(session.cursor().epoch, 3U);
  EXPECT_EQ(session.cursor().step, 21U);
}

TEST(Session, LanesTogetherAreTheMeanOverTheWholeBatch) {
  // Without BatchNorm the gradient of a batch does not depend on how it is cut, but for rounding.
  const auto dataset = line_data(50);
  auto one = testing::make_net<LinearNet>(1);
  auto many = testing::make_net<LinearNet>(1);
  Session whole(one, compute::Sgd{.lr = 0.1}, options(10, 1));
  Session cut(many, compute::Sgd{.lr = 0.1}, options(10, 3));  // lanes of 4, 3 and 3
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (Lane& lane : whole.lanes(dataset))
      train_lane(lane, *one);
    for (Lane& lane : cut.lanes(dataset))
      train_lane(lane, *many);
  }
  for (const auto& item : one->named_parameters()) {
    EXPECT_TRUE(torch::allclose(item.value(), many->named_parameters()[item.key()], 1e-4, 1e-5)) << item.key();
  }
}

TEST(Session, UsesEverySampleOfAnEpochExactlyOnce) {
  const auto dataset = line_data(101);
  auto net = testing::make_net<LinearNet>(1);
  Session session(net, compute::Sgd{}, options(16, 4));
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::multiset<std::uint64_t> seen;
    for (Lane& lane : session.lanes(dataset)) {
      EXPECT_EQ(lane.data.size(0), lane.target.size(0));
      EXPECT_EQ(lane.epoch, static_cast<std::uint64_t>(epoch));
      // The tensors hold the samples that ids names.
      for (std::size_t i = 0; i < lane.ids.size(); ++i) {
        std::array<float, 6> features{};
        EXPECT_EQ(lane.target[static_cast<std::int64_t>(i)].item<std::int64_t>(), dataset->read(lane.ids[i], features));
        EXPECT_EQ(lane.data[static_cast<std::int64_t>(i)][0].item<float>(), features[0]);
      }
      seen.insert(lane.ids.begin(), lane.ids.end());
      train_lane(lane, *net);
    }
    EXPECT_EQ(seen.size(), 101U);
    EXPECT_EQ(std::set<std::uint64_t>(seen.begin(), seen.end()).size(), 101U);
  }
}

TEST(Session, LanesOfLocalDataReadTheirOwnShardsAndNoOthers) {
  const auto dataset = line_data(101);
  const data::LaneShards cut = data::partition_lanes({}, 101, 4, 1, {});
  auto net = testing::make_net<LinearNet>(1);
  const SessionOptions local = options(16, 4);
  const auto order =
      std::make_shared<data::LocalOrder>(cut.shards, cut.lane_of, data::BatchShape{101, 16, 4}, local.seed);
  Session session(std::make_unique<SessionCore>(net, compute::Sgd{}, local, SessionParts{.order = order}));
  std::map<std::size_t, std::set<std::uint64_t>> first;
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::map<std::size_t, std::set<std::uint64_t>> seen;
    std::size_t samples = 0;
    for (Lane& lane : session.lanes(dataset)) {
      seen[lane.index].insert(lane.ids.begin(), lane.ids.end());
      samples += lane.ids.size();
      train_lane(lane, *net);
    }
    EXPECT_EQ(samples, 101U);
    if (epoch == 0) first = seen;
    EXPECT_EQ(seen, first) << "every epoch the same samples in the same lanes";
  }
}

TEST(Session, MixedSamplesComeWithProbabilities) {
  const auto dataset = line_data(40);
  auto net = testing::make_net<LinearNet>(1);
  SessionOptions mixing = options(20, 2);
  mixing.mixup_alpha = 1.0;
  Session session(net, compute::Sgd{}, mixing);
  int blended = 0;
  for (Lane& lane : session.lanes(dataset)) {
    ASSERT_EQ(lane.target.dim(), 2);
    EXPECT_TRUE(torch::allclose(lane.target.sum(1), torch::ones({lane.target.size(0)})));
    blended += ((lane.target > 0.001) & (lane.target < 0.999)).any().item<bool>();
    train_lane(lane, *net);
  }
  EXPECT_GT(blended, 0);
}

TEST(Session, TheSameSeedGivesTheSameBitsWhateverIsReadAhead) {
  const auto dataset = line_data(77);
  std::set<std::string> hashes;
  for (const auto& [threads, prefetch] : std::map<int, std::size_t>{{0, 1}, {1, 4}, {3, 40}}) {
    auto net = testing::make_net<BatchNormNet>(1);
    net->drop = 0.5;
    SessionOptions o = options(16, 4);
    o.loader_threads = threads;
    o.prefetch = prefetch;
    Session session(net, compute::Adam{.lr = 0.01}, o);
    for (int epoch = 0; epoch < 3; ++epoch) {
      torch::rand({17});  // somebody else draws numbers between the steps
      for (Lane& lane : session.lanes(dataset))
        train_lane(lane, *net);
    }
    hashes.insert(session.weights_hash());
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST(Session, AnotherSeedGivesOtherBits) {
  const auto dataset = line_data(77);
  std::set<std::string> hashes;
  for (const std::uint64_t seed : {3, 4}) {
    auto net = testing::make_net<BatchNormNet>(1);
    SessionOptions o = options(16, 4);
    o.seed = seed;
    Session session(net, compute::Sgd{}, o);
    for (Lane& lane : session.lanes(dataset))
      train_lane(lane, *net);
    hashes.insert(session.weights_hash());
  }
  EXPECT_EQ(hashes.size(), 2U);
}

TEST(Session, ALaneComputedAgainGivesTheSameBits) {
  // A loop that is left in the middle of a step, or that throws, changes nothing.
  const auto dataset = line_data(64);
  auto calm = testing::make_net<BatchNormNet>(1);
  auto restless = testing::make_net<BatchNormNet>(1);
  calm->drop = restless->drop = 0.5;
  Session a(calm, compute::Sgd{.lr = 0.1, .momentum = 0.9}, options(16, 4));
  Session b(restless, compute::Sgd{.lr = 0.1, .momentum = 0.9}, options(16, 4));
  for (Lane& lane : a.lanes(dataset))
    train_lane(lane, *calm);
  int lanes = 0;
  for (Lane& lane : b.lanes(dataset)) {
    train_lane(lane, *restless);
    if (++lanes == 6) break;  // two lanes into the second step
  }
  EXPECT_EQ(b.cursor().step, 1U);
  try {
    for (Lane& lane : b.lanes(dataset)) {
      train_lane(lane, *restless);
      if (++lanes == 9) throw std::runtime_error("user code");
    }
  } catch (const std::runtime_error&) {
  }
  for (Lane& lane : b.lanes(dataset))
    train_lane(lane, *restless);
  EXPECT_EQ(b.cursor(), a.cursor());
  EXPECT_EQ(b.weights_hash(), a.weights_hash());
}

TEST(Session, StepAndLoopAreTheSame) {
  const auto dataset = line_data(64);
  auto looped = testing::make_net<LinearNet>(1);
  auto stepped = testing::make_net<LinearNet>(1);
  Session a(looped, compute::Sgd{}, options(16, 2));
  Session b(stepped, compute::Sgd{}, options(16, 2));
  for (Lane& lane : a.lanes(dataset))
    train_lane(lane, *looped);
  double loss = 0;
  while (b.cursor().epoch == 0)
    loss = b.step(dataset, [&](Lane& lane) { train_lane(lane, *stepped); }).loss;
  EXPECT_EQ(a.weights_hash(), b.weights_hash());
  EXPECT_DOUBLE_EQ(a.last_outcome().loss, loss);
}

TEST(Session, AResumedSessionEndsWithTheSameBits) {
  const auto dataset = line_data(70);
  const testing::TemporaryFolder folder;
  auto straight = testing::make_net<BatchNormNet>(1);
  Session whole(straight, compute::Adam{.lr = 0.01}, options(16, 4));
  for (int i = 0; i < 12; ++i)
    whole.step(dataset, [&](Lane& lane) { train_lane(lane, *straight); });

  {
    auto net = testing::make_net<BatchNormNet>(1);
    Session first(net, compute::Adam{.lr = 0.01}, options(16, 4));
    EXPECT_FALSE(first.resume(folder.path()));
    for (int i = 0; i < 7; ++i)
      first.step(dataset, [&](Lane& lane) { train_lane(lane, *net); });
    first.checkpoint(folder.path());
  }
  auto net = testing::make_net<BatchNormNet>(99);  // other first weights: all of them come from the checkpoint
  Session second(net, compute::Adam{.lr = 0.01}, options(16, 4));
  ASSERT_TRUE(second.resume(folder.path()));
  EXPECT_EQ(second.cursor().step, 7U);
  for (int i = 0; i < 5; ++i)
    second.step(dataset, [&](Lane& lane) { train_lane(lane, *net); });
  EXPECT_EQ(second.weights_hash(), whole.weights_hash());
}

TEST(Session, ResumingRefusesAnotherModelOrShape) {
  const auto dataset = line_data(70);
  const testing::TemporaryFolder folder;
  auto net = testing::make_net<BatchNormNet>(1);
  Session first(net, compute::Adam{}, options(16, 4));
  first.checkpoint(folder.path());
  const auto refuses = [&](std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer,
                           const SessionOptions& o) {
    Session session(std::move(module), optimizer, o);
    const std::string before = session.weights_hash();
    EXPECT_THROW(session.resume(folder.path()), Error);
    EXPECT_EQ(session.weights_hash(), before);
  };
  refuses(testing::make_net<LinearNet>(1), compute::Adam{}, options(16, 4));
  refuses(testing::make_net<BatchNormNet>(1), compute::Sgd{}, options(16, 4));
  refuses(testing::make_net<BatchNormNet>(1), compute::Adam{}, options(16, 2));
  refuses(testing::make_net<BatchNormNet>(1), compute::Adam{}, options(17, 4));
}

TEST(Session, ANonFiniteLossSkipsTheStepAndIsCounted) {
  const auto dataset = line_data(32);
  auto net = testing::make_net<LinearNet>(1);
  Session session(net, compute::Sgd{}, options(16, 2));
  const std::string before = session.weights_hash();
  const auto outcome = session.step(dataset, [&](Lane& lane) {
    const float factor = lane.index == 1 ? std::numeric_limits<float>::infinity() : 1.0F;
    lane.backward(F::cross_entropy(net->forward(lane.data), lane.target) * factor);
  });
  EXPECT_FALSE(outcome.applied);
  EXPECT_EQ(session.core().skipped_steps().total, 1U);
  EXPECT_EQ(session.cursor().step, 1U);
  EXPECT_EQ(session.weights_hash(), before);
}

TEST(Session, StepsInARowThatAreNotFiniteEndTraining) {
  const auto dataset = line_data(32);
  auto net = testing::make_net<LinearNet>(1);
  SessionOptions few = options(16, 2);
  few.most_skipped = 3;
  Session session(net, compute::Sgd{}, few);
  const auto step = [&dataset](Session& of, LinearNet& its, bool finite) {
    return of
        .step(dataset,
              [&](Lane& lane) {
                const float factor = finite ? 1.0F : std::numeric_limits<float>::quiet_NaN();
                lane.backward(F::cross_entropy(its.forward(lane.data), lane.target) * factor);
              })
        .applied;
  };
  for (const bool finite : {false, false, true, false, false})
    EXPECT_EQ(step(session, *net, finite), finite);
  const Error error = testing::error_of([&] { step(session, *net, false); });
  EXPECT_EQ(error.kind(), ErrorKind::kCompute);
  EXPECT_THAT(error.what(),
              ::testing::AllOf(::testing::HasSubstr("3 steps in a row"), ::testing::HasSubstr("most_skipped")));
  EXPECT_EQ(session.cursor().step, 6U) << "the step was committed, and skipped, before";

  // One that goes on from steps which it has not seen counts those.
  auto later = testing::make_net<LinearNet>(1);
  Session resumed(later, compute::Sgd{}, few);
  resumed.core().go_on_after({.total = 5, .in_a_row = 2});
  testing::expect_error(ErrorKind::kCompute, "3 steps in a row", [&] { step(resumed, *later, false); });

  SessionOptions endless = options(16, 2);
  endless.most_skipped = 0;
  auto another = testing::make_net<LinearNet>(1);
  Session other(another, compute::Sgd{}, endless);
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(step(other, *another, false));
}

TEST(Session, ALaneWithoutBackwardIsAClearError) {
  const auto dataset = line_data(32);
  auto net = testing::make_net<LinearNet>(1);
  Session session(net, compute::Sgd{}, options(16, 2));
  try {
    session.step(dataset, [](Lane&) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("without backward()"));
  }
}

TEST(Session, LibTorchsErrorsNameStepAndLane) {
  const auto dataset = line_data(32);
  auto net = testing::make_net<LinearNet>(1);
  Session session(net, compute::Sgd{}, options(16, 2));
  try {
    session.step(dataset, [&](Lane&) { net->forward(torch::zeros({2, 5})); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCompute);
    EXPECT_EQ(error.where(), "step 0, lane 0");
  }
}

TEST(Session, BadOptionsAreRefused) {
  const auto make = [](std::uint64_t batch, std::uint64_t lanes) {
    return Session(testing::make_net<LinearNet>(1), compute::Sgd{}, options(batch, lanes));
  };
  EXPECT_THROW(make(0, 1), Error);
  EXPECT_THROW(make(4, 5), Error);
  EXPECT_THROW(make(7, 4), Error);
  EXPECT_NO_THROW(make(1, 1));
  EXPECT_THROW(make(100, 65), Error);
  EXPECT_THROW(make(100, 0), Error);

  const auto refused = [](const std::function<void(SessionOptions&)>& change) -> std::string {
    SessionOptions o = options(8, 2);
    change(o);
    try {
      Session(testing::make_net<LinearNet>(1), compute::Sgd{}, o);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refused([](auto& o) { o.clip_norm = -1; }), ::testing::HasSubstr("clip_norm is -1"));
  EXPECT_THAT(refused([](auto& o) { o.clip_norm = 0; }), ::testing::HasSubstr("clip_norm"));
  EXPECT_THAT(refused([](auto& o) { o.schedule.kind = compute::Schedule::Kind::kCosine; }),
              ::testing::HasSubstr("total_steps"));
  EXPECT_THAT(refused([](auto& o) { o.threads = 0; }), ::testing::HasSubstr("threads"));
  EXPECT_THAT(refused([](auto& o) { o.verify_rate = 2; }), ::testing::HasSubstr("verify_rate"));
  EXPECT_THAT(refused([](auto& o) { o.mixup_alpha = 0; }), ::testing::HasSubstr("mixup_alpha"));
  EXPECT_EQ(refused([](auto& o) { o.clip_norm = 0.5; }), "");
}

TEST(Session, AccumulatesAccuracyOverLanes) {
  const auto dataset = line_data(32);
  auto net = testing::make_net<LinearNet>(1);
  Session session(net, compute::Sgd{}, options(16, 4));
  const auto outcome = session.step(dataset, [&](Lane& lane) {
    train_lane(lane, *net);
    lane.add_score(static_cast<double>(lane.target.size(0)));
  });
  EXPECT_EQ(outcome.score, 16.0);
  EXPECT_EQ(outcome.samples, 16U);
}

TEST(Session, AModelKeepsItsParametersWhenTheSessionIsGone) {
  auto net = testing::make_net<LinearNet>(1);
  torch::Tensor before;
  const torch::Tensor input = torch::ones({2, 6});
  {
    Session session(net, compute::Sgd{.lr = 0.1}, options(8, 2));
    session.step(line_data(24), [&](Lane& lane) { train_lane(lane, *net); });
    before = net->forward(input).detach().clone();
  }
  EXPECT_TRUE(torch::equal(net->forward(input), before));
}

TEST(SessionVerify, LanesThatAreComputedAgainAreTheSameAndChangeNothing) {
  const auto dataset = line_data(53);
  std::vector<std::string> hashes;
  for (const double rate : {0.0, 1.0}) {
    auto net = testing::make_net<BatchNormNet>(1);
    net->drop = 0.5;
    SessionOptions o = options(8, 3);
    o.verify_rate = rate;
    Session session(net, compute::Adam{}, o);
    std::size_t repeated = 0;
    std::size_t all = 0;
    for (Lane& lane : session.lanes(dataset)) {
      repeated += lane.repeated ? 1 : 0;
      ++all;
      train_lane(lane, *net);
    }
    EXPECT_EQ(repeated, rate == 0 ? 0U : all / 2);
    hashes.push_back(session.weights_hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(SessionVerify, CodeThatKeepsSomethingFromLaneToLaneIsFoundAndTheTensorNamed) {
  const auto dataset = line_data(24);
  auto net = testing::make_net<LinearNet>(1);
  SessionOptions o = options(8, 2);
  o.verify_rate = 1;
  Session session(net, compute::Sgd{.lr = 0.1}, o);
  int calls = 0;
  try {
    session.step(dataset, [&](Lane& lane) {
      const torch::Tensor scale = torch::ones({1}) * (1.0 + 1e-3 * calls++);
      lane.backward(F::cross_entropy(net->forward(lane.data) * scale, lane.target));
    });
    FAIL() << "nothing was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("lane 0 of step 0"),
                                               ::testing::HasSubstr("the gradient of second.bias"),
                                               ::testing::HasSubstr("keep nothing from lane to lane")));
  }
}

// Two workers as threads with a group between them, by all_reduce.
void run_two_workers(bool overlap, const std::function<void(int rank, Session&, testing::SmallNet&)>& body) {
  const comm::SharedRegion region = comm::create_shm_group_region(2);
  const std::array nets{testing::make_net<LinearNet>(1), testing::make_net<LinearNet>(2)};  // the first one's count
  testing::run_ranks(2, [&](int rank) {
    auto mapping = comm::SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
    SessionOptions o = options(16, 4);
    o.group = comm::Group(comm::join_shm_group(std::move(mapping), rank, Deadline::after(std::chrono::seconds(60))));
    o.strategy = strategies::AllReduce{.overlap = overlap};
    const auto net = nets[static_cast<std::size_t>(rank)];
    Session session(net, compute::Sgd{.lr = 0.1, .momentum = 0.9}, o);
    body(rank, session, *net);
    o.group.barrier();
  });
}

TEST(Session, SummingGradientsWhileBackwardGoesOnChangesNothing) {
  const auto dataset = line_data(53);
  Mutex mutex;
  std::set<std::string> hashes;
  for (const bool overlap : {false, true}) {
    run_two_workers(overlap, [&](int, Session& session, testing::SmallNet& net) {
      for (int epoch = 0; epoch < 3; ++epoch) {
        for (Lane& lane : session.lanes(dataset))
          train_lane(lane, net);
      }
      const MutexLock lock(mutex);
      hashes.insert(session.weights_hash());
    });
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST(Session, AGradientThatIsOnItsWayTakesNoSecondBackward) {
  const auto dataset = line_data(53);
  run_two_workers(true, [&](int, Session& session, testing::SmallNet& net) {
    // The first of this worker's two lanes may have several: nothing is sent before the last one.
    std::size_t lanes = 0;
    for (Lane& lane : session.lanes(dataset)) {
      train_lane(lane, net);
      if (++lanes == 1) {
        EXPECT_NO_THROW(train_lane(lane, net));
        continue;
      }
      try {
        train_lane(lane, net);
        ADD_FAILURE() << "taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      }
      break;
    }
    EXPECT_EQ(lanes, 2U);
  });
}

}  // namespace
}  // namespace muster::trainer
