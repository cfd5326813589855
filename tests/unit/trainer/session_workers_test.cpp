// Sessions of several workers against the plain LibTorch loop over the whole batch: the same model, the same order of
// samples, torch::optim. And against each other: the same bits for any number of workers.
#include <barrier>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/mutex.h"
#include "muster/data/lane_order.h"
#include "muster/data/partition/partition.h"
#include "muster/data/permutation.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/trainer/session.h"
#include "muster/trainer/session_core.h"
#include "support/groups.h"
#include "support/sandbox.h"
#include "support/small_nets.h"

namespace muster::trainer {
namespace {

namespace F = torch::nn::functional;

constexpr std::uint64_t kSamples = 50;  // a short last batch
constexpr std::uint64_t kEpochs = 3;

// Everything that makes gradients irregular, in a form that does not depend on how the batch is cut:
//   encode, decode  one weight under two names
//   frozen          takes part and is not trained
//   rare            used by samples with a large first feature: absent from most lanes and from some whole batches
//   never           used by nobody
struct IrregularNet final : testing::SmallNet {
  IrregularNet() {
    encode = register_parameter("encode", torch::randn({6, 6}).mul_(0.5));
    decode = register_parameter("decode", encode);
    frozen = register_parameter("frozen", torch::randn({6}), /*requires_grad=*/false);
    rare = register_parameter("rare", torch::randn({3}));
    never = register_parameter("never", torch::randn({4}));
    last = register_module("last", torch::nn::Linear(6, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) override {
    const torch::Tensor hidden = torch::tanh(torch::linear(x, encode)) * frozen;
    torch::Tensor scores = last->forward(torch::linear(hidden, decode));
    const torch::Tensor chosen = x.select(1, 0).gt(threshold);
    if (chosen.any().item<bool>()) scores = scores + chosen.to(torch::kFloat32).unsqueeze(1) * rare;
    return scores;
  }
  static constexpr double threshold = 1.6;
  torch::Tensor encode, decode, frozen, rare, never;
  torch::nn::Linear last{nullptr};
};

struct Case {
  std::string name;
  compute::OptimizerOptions optimizer;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> theirs;
  std::optional<double> clip_norm;
};

std::vector<Case> cases() {
  const auto sgd = [](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  };
  const auto adam = [](std::vector<torch::Tensor> parameters) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                torch::optim::AdamOptions(0.01).weight_decay(0.01));
  };
  const compute::Sgd our_sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  const compute::Adam our_adam{.lr = 0.01, .weight_decay = 0.01};
  return {{"sgd", our_sgd, sgd, {}},
          {"sgd, clipped", our_sgd, sgd, 0.3},
          {"adam", our_adam, adam, {}},
          {"adam, clipped", our_adam, adam, 0.3}};
}

SessionOptions session_options(const Case& c, const strategies::StrategyChoice& strategy) {
  SessionOptions options;
  options.batch = 12;
  options.lanes = 6;  // more than there are workers: gradients accumulate over lanes of two samples
  options.seed = 3;
  options.clip_norm = c.clip_norm;
  options.strategy = strategy;
  return options;
}

// What the plain loop did, for the reader to see that the case is not an easy one.
struct Plain {
  std::map<std::string, torch::Tensor> parameters;
  std::vector<double> norms;
  int steps_without_rare = 0;
  int steps_clipped = 0;
};

Plain train_plain(const Case& c, const data::Dataset& dataset) {
  const SessionOptions o = session_options(c, strategies::SharedSync{});
  const auto net = testing::make_net<IrregularNet>(1);
  std::vector<torch::Tensor> trained;  // each once, as a user would pass tied weights
  for (const torch::Tensor& parameter : {net->encode, net->rare, net->never, net->last->weight, net->last->bias})
    trained.push_back(parameter);
  const auto optimizer = c.theirs(trained);
  Plain plain;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const data::Permutation order(dataset.size(), o.seed, epoch);
    for (std::uint64_t begin = 0; begin < dataset.size(); begin += o.batch) {
      const std::uint64_t count = std::min(o.batch, dataset.size() - begin);
      torch::Tensor input = torch::empty({static_cast<std::int64_t>(count), 6});
      torch::Tensor target = torch::empty({static_cast<std::int64_t>(count)}, torch::kInt64);
      for (std::uint64_t i = 0; i < count; ++i)
        target[static_cast<std::int64_t>(i)] = dataset.read(order(begin + i), {input.data_ptr<float>() + i * 6, 6});
      for (torch::Tensor& parameter : trained)
        parameter.mutable_grad() = torch::Tensor();
      F::cross_entropy(net->forward(input), target).backward();
      plain.steps_without_rare += net->rare.grad().defined() ? 0 : 1;
      const double norm = torch::nn::utils::clip_grad_norm_(trained, c.clip_norm.value_or(1e9));
      plain.steps_clipped += c.clip_norm && norm > *c.clip_norm ? 1 : 0;
      plain.norms.push_back(norm);
      optimizer->step();
    }
  }
  for (const auto& item : net->named_parameters())
    plain.parameters[item.key()] = item.value().detach().clone();
  return plain;
}

struct Distributed {
  std::map<std::string, torch::Tensor> parameters;
  std::vector<double> norms;
  std::vector<double> losses;
  std::string hash;
};

// What each worker ended with.
std::vector<Distributed> train_workers(const Case& c, const std::shared_ptr<const data::Dataset>& dataset, int workers,
                                       const strategies::StrategyChoice& strategy, strategies::Claims claims) {
  std::vector<std::shared_ptr<IrregularNet>> nets;  // here, because threads would share the generator
  for (int rank = 0; rank < workers; ++rank)
    nets.push_back(testing::make_net<IrregularNet>(static_cast<std::uint64_t>(rank + 1)));  // the first one's count
  std::vector<Distributed> results(static_cast<std::size_t>(workers));
  testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
    SessionOptions options = session_options(c, strategy);
    options.group = group;
    options.claims = claims;
    IrregularNet& net = *nets[static_cast<std::size_t>(rank)];
    Session session(nets[static_cast<std::size_t>(rank)], c.optimizer, options);
    Distributed& result = results[static_cast<std::size_t>(rank)];
    while (session.cursor().epoch < kEpochs) {
      const strategies::StepOutcome outcome = session.step(
          dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(net.forward(lane.data), lane.target)); });
      result.norms.push_back(outcome.gradient_norm);
      result.losses.push_back(outcome.loss);
    }
    for (const auto& item : net.named_parameters())
      result.parameters[item.key()] = item.value().detach().clone();
    result.hash = session.weights_hash();
    group.barrier();
  });
  return results;
}

void expect_close(const Distributed& ours, const Plain& theirs, const std::string& where) {
  EXPECT_EQ(ours.parameters.size(), 7U);
  for (const auto& [name, tensor] : ours.parameters) {
    const double difference = (tensor - theirs.parameters.at(name)).abs().max().item<double>();
    EXPECT_LT(difference, 2e-6) << where << ": " << name;
  }
  ASSERT_EQ(ours.norms.size(), theirs.norms.size());
  for (std::size_t step = 0; step < ours.norms.size(); ++step)
    EXPECT_NEAR(ours.norms[step], theirs.norms[step], 1e-5 * theirs.norms[step] + 1e-6) << where << ", step " << step;
}

TEST(SessionWorkers, TheCasesAreWhatTheyClaim) {
  const auto dataset = testing::line_data(kSamples);
  const auto first = testing::make_net<IrregularNet>(1);
  for (const Case& c : cases()) {
    const Plain plain = train_plain(c, *dataset);
    const auto steps = static_cast<int>(plain.norms.size());
    EXPECT_GT(plain.steps_without_rare, 0) << c.name;
    EXPECT_LT(plain.steps_without_rare, steps) << c.name;
    EXPECT_EQ(plain.steps_clipped > 0, c.clip_norm.has_value()) << c.name;
    // As torch::optim treats them: no gradient, no change, not even by weight decay.
    EXPECT_TRUE(torch::equal(plain.parameters.at("never"), first->never)) << c.name;
    EXPECT_FALSE(torch::equal(plain.parameters.at("rare"), first->rare)) << c.name;
  }
}

TEST(SessionWorkers, FollowThePlainLibTorchLoopWithTheSameBitsForAnyNumberOfWorkers) {
  const auto dataset = testing::line_data(kSamples);
  for (const Case& c : cases()) {
    const Plain plain = train_plain(c, *dataset);
    const Distributed alone =
        train_workers(c, dataset, 1, strategies::SharedSync{}, strategies::Claims::kStatic).front();
    expect_close(alone, plain, c.name + ", alone");
    for (const auto& [workers, claims] :
         {std::pair(2, strategies::Claims::kStatic), std::pair(2, strategies::Claims::kDynamic),
          std::pair(3, strategies::Claims::kStatic), std::pair(3, strategies::Claims::kDynamic)}) {
      for (const Distributed& worker : train_workers(c, dataset, workers, strategies::SharedSync{}, claims)) {
        EXPECT_EQ(worker.hash, alone.hash) << c.name << ", " << workers << " workers";
        EXPECT_EQ(worker.norms, alone.norms) << c.name << ", " << workers << " workers";
        EXPECT_EQ(worker.losses, alone.losses) << c.name << ", " << workers << " workers";
        EXPECT_TRUE(torch::equal(worker.parameters.at("encode"), alone.parameters.at("decode")));
      }
    }
  }
}

TEST(SessionWorkers, ReplicasFollowThePlainLibTorchLoopToo) {
  const auto dataset = testing::line_data(kSamples);
  for (const Case& c : cases()) {
    const Plain plain = train_plain(c, *dataset);
    for (const int workers : {2, 3}) {
      const auto results = train_workers(c, dataset, workers, strategies::AllReduce{}, strategies::Claims::kStatic);
      for (const Distributed& worker : results) {
        expect_close(worker, plain, fmt::format("{}, {} replicas", c.name, workers));
        EXPECT_EQ(worker.hash, results.front().hash) << c.name << ", " << workers << " workers";
      }
    }
  }
}

// Writes down which samples are asked for.
class Watched final : public data::Dataset {
 public:
  explicit Watched(std::shared_ptr<const data::Dataset> dataset) : dataset_(std::move(dataset)) {}
  std::uint64_t size() const override { return dataset_->size(); }
  const data::SampleSpec& spec() const override { return dataset_->spec(); }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    const MutexLock lock(mutex_);
    ++reads_;
    seen_.insert(id);
    return dataset_->read(id, features);
  }
  std::uint64_t reads() const {
    const MutexLock lock(mutex_);
    return reads_;
  }
  std::set<std::uint64_t> seen() const {
    const MutexLock lock(mutex_);
    return seen_;
  }

 private:
  const std::shared_ptr<const data::Dataset> dataset_;
  mutable Mutex mutex_;
  mutable std::uint64_t reads_ MUSTER_GUARDED_BY(mutex_) = 0;
  mutable std::set<std::uint64_t> seen_ MUSTER_GUARDED_BY(mutex_);
};

TEST(SessionWorkers, WithLocalDataAndDynamicClaimsAWorkerReadsItsPartOfTheSamples) {
  constexpr std::uint64_t kLocalSamples = 384;  // shards of 2, lanes of 32, 4 a step
  const auto dataset = testing::line_data(kLocalSamples);
  const data::LaneShards cut = data::partition_lanes({}, kLocalSamples, 12, 3, {});
  const auto order = std::make_shared<data::LocalOrder>(
      cut.shards, cut.lane_of, data::BatchShape{.samples = kLocalSamples, .batch = 48, .lanes = 12}, 3);
  std::string alone;
  for (const int workers : {1, 2, 3}) {
    std::vector<std::shared_ptr<IrregularNet>> nets;
    std::vector<std::shared_ptr<Watched>> sets;
    for (int rank = 0; rank < workers; ++rank) {
      nets.push_back(testing::make_net<IrregularNet>(1));
      sets.push_back(std::make_shared<Watched>(dataset));
    }
    // Workers of equal speed: none begins its next lane before all have begun this one.
    std::barrier pace(workers);
    testing::run_group(workers, testing::Network::kShm, [&](int rank, comm::Group group) {
      SessionOptions options;
      options.batch = 48;
      options.lanes = 12;
      options.seed = 3;
      options.group = group;
      options.claims = strategies::Claims::kDynamic;
      const auto& net = nets[static_cast<std::size_t>(rank)];
      Session session(
          std::make_unique<SessionCore>(net, compute::Sgd{.lr = 0.1}, options, SessionParts{.order = order}));
      while (session.cursor().epoch < 2) {
        session.step(sets[static_cast<std::size_t>(rank)], [&](Lane& lane) {
          pace.arrive_and_wait();
          lane.backward(F::cross_entropy(net->forward(lane.data), lane.target));
        });
      }
      if (alone.empty()) alone = session.weights_hash();  // the first time there is one worker
      EXPECT_EQ(session.weights_hash(), alone) << workers << " workers";
      group.barrier();
    });
    std::set<std::uint64_t> all;
    for (const auto& set : sets) {
      const std::set<std::uint64_t> seen = set->seen();
      EXPECT_EQ(seen.size(), kLocalSamples / static_cast<std::uint64_t>(workers)) << workers << " workers";
      all.insert(seen.begin(), seen.end());
      // Two epochs, and the lanes that were read ahead for a third.
      EXPECT_LE(set->reads(), 2 * seen.size() + SessionOptions().prefetch * 4) << workers << " workers";
    }
    EXPECT_EQ(all.size(), kLocalSamples);
  }
}

// Every worker is refused, at once, with both values.
TEST(SessionWorkers, ThatWouldNotTrainTheSameAreRefused) {
  struct Other {
    std::string names;
    std::function<void(SessionOptions&, compute::Sgd&)> change;
    std::uint64_t samples = kSamples;
  };
  const std::vector<Other> others{
      {"batch is 24 at worker 1 and 12 at worker 0", [](auto& o, auto&) { o.batch = 24; }},
      {"seed is 4 at worker 1 and 3 at worker 0", [](auto& o, auto&) { o.seed = 4; }},
      {"optimizer.lr is 0.5 at worker 1 and 0.1 at worker 0", [](auto&, auto& sgd) { sgd.lr = 0.5; }},
      {"clip_norm is 2 at worker 1 and none at worker 0", [](auto& o, auto&) { o.clip_norm = 2; }},
      {"schedule.warmup_steps is 3 at worker 1 and 0 at worker 0", [](auto& o, auto&) { o.schedule.warmup_steps = 3; }},
      {"samples of the data set is 49 at worker 1 and 50 at worker 0", [](auto&, auto&) {}, kSamples - 1},
  };
  using strategies::StrategyChoice;
  for (const StrategyChoice& strategy :
       {StrategyChoice(strategies::SharedSync{}), StrategyChoice(strategies::AllReduce{}),
        StrategyChoice(strategies::LocalSgd{}), StrategyChoice(strategies::ParameterServer{})}) {
    for (const Other& other : others) {
      std::vector<std::shared_ptr<IrregularNet>> nets{testing::make_net<IrregularNet>(1),
                                                      testing::make_net<IrregularNet>(1)};
      testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
        SessionOptions options = session_options(cases().front(), strategy);
        options.group = group;
        options.step_timeout = std::chrono::seconds(20);
        compute::Sgd sgd{.lr = 0.1};
        if (rank == 1) other.change(options, sgd);
        try {
          Session session(nets[static_cast<std::size_t>(rank)], sgd, options);
          session.meet(testing::line_data(rank == 1 ? other.samples : kSamples));
          ADD_FAILURE() << strategy.name() << ", not refused: " << other.names;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
          EXPECT_THAT(error.what(), ::testing::HasSubstr(other.names)) << strategy.name() << ", worker " << rank;
        }
        group.barrier();
      });
    }
  }
}

// Nobody has to think of it: what all workers share is the same for all, and what one writes is what all have.
TEST(SessionWorkers, WhoHaveGoneApartComeTogetherForWhatAllDo) {
  const auto dataset = testing::line_data(48);
  enum class Call { kCheckpoint, kSave, kEvaluate, kMeasure };
  for (const strategies::StrategyChoice& strategy :
       {strategies::StrategyChoice(strategies::LocalSgd{.period = 100}),
        strategies::StrategyChoice(strategies::ParameterServer{.consistency = "asp"})}) {
    for (const Call call : {Call::kCheckpoint, Call::kSave, Call::kEvaluate, Call::kMeasure}) {
      const testing::TemporaryFolder folder;
      std::vector<std::shared_ptr<testing::SmallNet>> nets{testing::make_net<IrregularNet>(1),
                                                           testing::make_net<IrregularNet>(1)};
      std::vector<std::string> apart(2);
      std::vector<std::string> together(2);
      testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
        const auto me = static_cast<std::size_t>(rank);
        SessionOptions options = session_options(cases().front(), strategy);
        options.group = group;
        Session session(nets[me], cases().front().optimizer, options);
        const auto forward = [&](const torch::Tensor& x) { return nets[me]->forward(x); };
        for (int step = 0; step < 3; ++step)
          session.step(dataset, [&](Lane& lane) { lane.backward(F::cross_entropy(forward(lane.data), lane.target)); });
        apart[me] = session.weights_hash();
        if (call == Call::kCheckpoint) session.checkpoint(folder.path());
        if (call == Call::kSave) session.save(folder / "net.safetensors");
        if (call == Call::kEvaluate) session.evaluate(forward, dataset);
        if (call == Call::kMeasure)
          session.measure([&](Lane& batch) { batch.report("mean", forward(batch.data).mean()); }, dataset);
        together[me] = session.weights_hash();
        group.barrier();
      });
      if (strategy.name() == "local_sgd") {
        EXPECT_NE(apart[0], apart[1]) << "they have not gone apart";
      }
      EXPECT_EQ(together[0], together[1]) << strategy.name() << ", call " << static_cast<int>(call);
    }
  }
}

// A step that was synchronized once is another one when the session has gone back before it.
TEST(SessionWorkers, WhoGoBackToACheckpointComeTogetherOnceMoreAtTheSameStep) {
  const auto dataset = testing::line_data(48);
  const testing::TemporaryFolder folder;
  std::vector<std::shared_ptr<testing::SmallNet>> nets{testing::make_net<IrregularNet>(1),
                                                       testing::make_net<IrregularNet>(1)};
  std::vector<std::string> apart(2);
  std::vector<std::string> together(2);
  testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
    const auto me = static_cast<std::size_t>(rank);
    SessionOptions options = session_options(cases().front(), strategies::LocalSgd{.period = 100});
    options.group = group;
    Session session(nets[me], cases().front().optimizer, options);
    const auto step_until = [&](std::uint64_t step) {
      session.train_until(step, dataset, [&](Lane& lane) {
        lane.backward(F::cross_entropy(nets[me]->forward(lane.data), lane.target));
      });
    };
    step_until(1);
    session.checkpoint(folder.path());
    step_until(3);
    session.save(folder / "net.safetensors");
    EXPECT_TRUE(session.resume(folder.path()));
    EXPECT_EQ(session.cursor().step, 1U);
    step_until(3);
    apart[me] = session.weights_hash();
    session.save(folder / "net.safetensors");
    together[me] = session.weights_hash();
    group.barrier();
  });
  EXPECT_NE(apart[0], apart[1]) << "they have not gone apart";
  EXPECT_EQ(together[0], together[1]);
}

// The habit of programs in which one worker saves.
TEST(SessionWorkers, ACallOfAllThatOneMakesAloneIsNamedByTheErrorThatEndsIt) {
  const auto dataset = testing::line_data(48);
  enum class Call { kSave, kCheckpoint };
  for (const Call call : {Call::kSave, Call::kCheckpoint}) {
    const testing::TemporaryFolder folder;
    std::vector<std::shared_ptr<testing::SmallNet>> nets{testing::make_net<IrregularNet>(1),
                                                         testing::make_net<IrregularNet>(1)};
    std::barrier seen(2);
    testing::run_group(2, testing::Network::kShm, [&](int rank, comm::Group group) {
      const auto me = static_cast<std::size_t>(rank);
      SessionOptions options = session_options(cases().front(), strategies::LocalSgd{.period = 100});
      options.group = group;
      options.step_timeout = std::chrono::seconds(1);
      Session session(nets[me], cases().front().optimizer, options);
      session.meet(dataset);
      if (call == Call::kCheckpoint)
        session.step(dataset, [&](Lane& lane) { lane.backward(nets[me]->forward(lane.data).mean()); });
      if (session.members().leads()) {
        const std::string name = call == Call::kSave ? "save()" : "checkpoint()";
        try {
          call == Call::kSave ? session.save(folder / "net.safetensors") : session.checkpoint(folder.path());
          ADD_FAILURE() << name << " did not wait for the other worker";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
          EXPECT_THAT(error.what(), ::testing::HasSubstr(name + " is called by all workers"));
        }
      }
      seen.arrive_and_wait();
    });
  }
}

TEST(SessionWorkers, SynchronizedBatchNormNeedsWorkersThatMeetInEveryLane) {
  testing::run_group(2, testing::Network::kShm, [](int, comm::Group group) {
    struct Net : torch::nn::Module {};
    const auto net = std::make_shared<Net>();
    net->register_module("norm", model::SyncBatchNorm2d(3))->synchronize(group);
    SessionOptions options;
    options.batch = 8;
    options.lanes = 2;
    options.group = group;
    EXPECT_THROW(Session(net, compute::Sgd{}, options), Error) << "shared_sync";
    group.barrier();
    options.strategy = strategies::AllReduce{};
    options.lanes = 4;
    EXPECT_THROW(Session(net, compute::Sgd{}, options), Error) << "two lanes a worker";
    group.barrier();
    options.lanes = 2;
    Session session(net, compute::Sgd{}, options);
    EXPECT_THROW(session.step(testing::line_data(17), [](Lane&) {}), Error) << "a last batch of one sample";
    group.barrier();
  });
}

}  // namespace
}  // namespace muster::trainer
