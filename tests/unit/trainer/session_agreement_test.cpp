// Every option that decides the result is changed once and must be noticed.
#include "muster/trainer/session_agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "muster/base/error.h"
#include "muster/data/synthetic.h"
#include "muster/launch/environment.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "support/errors.h"

namespace muster::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const model::FlatLayout kLayout({{"weight", {3, 4}}, {"bias", {3}}});

Agreement describe(const SessionOptions& options, const compute::OptimizerOptions& optimizer = compute::Sgd{},
                   const model::FlatLayout& layout = kLayout) {
  compute::BufferLayout buffers;
  buffers.add("mean", model::Dtype::kF32, {3}, 12);
  const std::vector<PartOptions> parts{{.name = "", .optimizer = optimizer}};
  return describe_session(options, 2, parts, layout, buffers);
}

TEST(SessionAgreement, EveryOptionThatDecidesTheResultIsInIt) {
  const Agreement first = describe({});
  std::set<std::string> names;
  for (const auto& entry : first)
    EXPECT_TRUE(names.insert(entry.first).second) << entry.first << " twice";
  const std::vector<std::function<void(SessionOptions&)>> changes{
      [](auto& o) { o.batch = 65; },
      [](auto& o) { o.threads = 2; },
      [](auto& o) { o.seed = 2; },
      [](auto& o) { o.clip_norm = 1; },
      [](auto& o) { o.exempt = compute::Exemption::kBiasAndNorm; },
      [](auto& o) { o.mixup_alpha = 0.5; },
      [](auto& o) { o.strategy = strategies::AllReduce{}; },
      [](auto& o) { o.schedule.kind = compute::Schedule::Kind::kStep; },
      [](auto& o) { o.schedule.warmup_steps = 0.5; },
      [](auto& o) { o.schedule.warmup_start = 0.2; },
      [](auto& o) { o.schedule.total_steps = 7; },
      [](auto& o) {
        o.schedule.milestones = {3, 4};
      },
      [](auto& o) { o.schedule.gamma = 0.2; },
      [](auto& o) { o.schedule.power = 2; },
      [](auto& o) { o.schedule.final_fraction = 0.5; },
      [](auto& o) { o.tuning.freeze = {"weight"}; },
      [](auto& o) {
        o.tuning.unfreeze = {{"weight", 2}};
      },
      [](auto& o) {
        o.tuning.lr_factors = {{"weight", 0.1}};
      },
      [](auto& o) {
        o.tuning.decay_factors = {{"weight", 0}};
      },
      [](auto& o) { o.schedule.factor = [](std::uint64_t) { return 1.0; }; },
      [](auto& o) { o.schedule.factor = [](std::uint64_t step) { return step < 500 ? 1.0 : 0.5; }; },
      [](auto& o) { o.after_commit = [](const data::Cursor&) {}; },
      [](auto& o) { o.strategy = strategies::AllReduce{.overlap = true}; },
      [](auto& o) { o.strategy = strategies::LocalSgd{.period = 9}; },
      [](auto& o) { o.strategy = strategies::ParameterServer{.staleness = 9}; },
  };
  std::set<Agreement> different{first};
  for (const auto& change : changes) {
    SessionOptions options;
    change(options);
    EXPECT_TRUE(different.insert(describe(options)).second) << different.size();
  }
  EXPECT_TRUE(different.insert(describe({}, compute::Sgd{.momentum = 0.9})).second);
  EXPECT_TRUE(different.insert(describe({}, compute::Adam{})).second);
  const compute::OwnOptimizer own{.update = [](const auto&, const auto&, const auto&) {}};
  EXPECT_TRUE(different.insert(describe({}, own)).second);
  EXPECT_TRUE(different.insert(describe({}, compute::AdamW{})).second);
  EXPECT_TRUE(
      different.insert(describe({}, compute::Sgd{}, model::FlatLayout({{"weight", {4, 3}}, {"bias", {3}}}))).second);
  EXPECT_TRUE(
      different.insert(describe({}, compute::Sgd{}, model::FlatLayout({{"weight", {3, 4}, false}, {"bias", {3}}})))
          .second);
  // What only decides who does it, and how fast.
  SessionOptions same;
  same.prefetch = 9;
  same.loader_threads = 3;
  same.claims = strategies::Claims::kDynamic;
  EXPECT_EQ(describe(same), first);
}

TEST(SessionAgreement, TheFirstToComeSaysItAndTheOthersHaveToSayTheSame) {
  const auto store = comm::make_memory_store();
  const Agreement wanted = describe({});
  int refusals = 0;
  const auto refused = [&] { ++refusals; };
  EXPECT_NO_THROW(agree(*store, "session", "3", wanted, refused));
  EXPECT_NO_THROW(agree(*store, "session", "2-0", wanted, refused));
  EXPECT_NO_THROW(agree(*store, "session", "3", wanted, refused)) << "one that was replaced";
  EXPECT_EQ(refusals, 0);
  SessionOptions other;
  other.batch = 250;
  for (const std::string worker : {"1", "2-1"}) {
    try {
      agree(*store, "session", worker, describe(other), refused);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), HasSubstr("batch is 250 at worker " + worker + " and 64 at worker 3"));
    }
  }
  EXPECT_EQ(refusals, 2);
}

TEST(SessionAgreement, TheFirstRefusalIsLeftForTheSupervisor) {
  const auto store = comm::make_memory_store();
  leave_refusal(*store, 1);
  leave_refusal(*store, 2);
  EXPECT_EQ(store->get(launch::kRefusedKey, Deadline::after(std::chrono::seconds(0))), "1");
}

TEST(SessionAgreement, AModelOfManyTensorsIsComparedToo) {
  std::vector<model::TensorInfo> tensors;
  for (int i = 0; i < 3000; ++i)
    tensors.push_back({"layer." + std::to_string(i) + ".weight.with.a.long.name", {i + 1}});
  const auto store = comm::make_memory_store();
  EXPECT_NO_THROW(agree(*store, "session", "0", describe({}, compute::Sgd{}, model::FlatLayout(tensors)), [] {}));
  EXPECT_NO_THROW(agree(*store, "session", "1", describe({}, compute::Sgd{}, model::FlatLayout(tensors)), [] {}));
  tensors[1700].shape = {5};
  try {
    agree(*store, "session", "1", describe({}, compute::Sgd{}, model::FlatLayout(tensors)), [] {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("the model is 3001 tensors"), HasSubstr("at worker 0")));
  }
}

TEST(SessionAgreement, DataIsDescribedByItsSizeItsFormAndTheOrderOfItsSamples) {
  const auto described = [](std::uint64_t samples, std::vector<std::int64_t> shape, std::uint64_t seed) {
    data::SyntheticOptions options;
    options.shape = std::move(shape);
    options.samples = samples;
    const data::Synthetic dataset(options);
    return describe_data(dataset, data::GlobalOrder({samples, 8, 2}, seed));
  };
  const Agreement first = described(40, {6}, 1);
  EXPECT_EQ(described(40, {6}, 1), first);
  EXPECT_NE(described(41, {6}, 1), first);
  EXPECT_NE(described(40, {2, 3}, 1), first);
  EXPECT_NE(described(40, {6}, 2), first);
}

// Of a store of all hosts whose coordinator goes away at the wrong moment.
class StoreAway final : public comm::Store {
 public:
  int tries = 0;  // to read that find nobody
  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::string get(std::string_view key, const Deadline& deadline) override {
    if (tries-- > 0) throw Error(ErrorKind::kTimeout, "the coordinator does not answer");
    return store_->get(key, deadline);
  }

 private:
  const std::shared_ptr<comm::Store> store_ = comm::make_memory_store();
};

TEST(SessionAgreement, IsReadWhenTheStoreAnswersAgain) {
  StoreAway store;
  agree(store, "session", "1-0", describe({}), [] {});
  store.tries = 3;
  EXPECT_NO_THROW(agree(store, "session", "2-0", describe({}), [] {}));
  SessionOptions other;
  other.seed = 7;
  store.tries = 3;
  EXPECT_EQ(testing::error_of([&] { agree(store, "session", "3-0", describe(other), [] {}); }).kind(),
            ErrorKind::kMismatch);
}

TEST(SessionAgreement, OtherContentsOfTheSameSizeShow) {
  const auto contents = [](std::uint64_t seed) {
    data::SyntheticOptions made;
    made.shape = {4};
    made.samples = 100;
    made.seed = seed;
    return describe_contents(data::Synthetic(made)).second;
  };
  EXPECT_EQ(contents(1), contents(1));
  EXPECT_NE(contents(1), contents(2));
}

}  // namespace
}  // namespace muster::trainer
