// Every name makes a strategy; another name gets the nearest.
#include "muster/strategies/registry.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy_kind.h"

namespace muster::strategies {
namespace {

TEST(StrategyRegistry, MakesEveryStrategyItNames) {
  for (StrategyChoice& strategy : all_strategies()) {
    if (auto* const servers = strategy.get<ParameterServer>()) servers->servers = 0;  // nobody has started one
    EXPECT_NE(strategy.make({model::FlatLayout({{"w", {3}}}), {}, 0, 1}), nullptr) << strategy.name();
  }
}

TEST(StrategyRegistry, NoTwoStrategiesShareAKey) {
  std::set<std::string> keys;
  for (const StrategyChoice& strategy : all_strategies()) {
    for (const std::string& key : strategy.keys())
      EXPECT_TRUE(keys.insert(key).second) << key;
  }
  EXPECT_EQ(keys.count("period"), 1U);
}

TEST(StrategyChoice, IsAValueWhoseOptionsAreItsOwn) {
  StrategyChoice one = LocalSgd{.period = 3};
  StrategyChoice other = one;
  other.get<LocalSgd>()->period = 9;
  EXPECT_EQ(one.get<LocalSgd>()->period, 3);
  EXPECT_EQ(one.get<AllReduce>(), nullptr);
  EXPECT_NE(one.describe(), other.describe());
  other = one;
  EXPECT_EQ(one.describe(), other.describe());
  EXPECT_NE(one.describe(), StrategyChoice(AllReduce{}).describe());
}

TEST(StrategyChoice, ItsTraitsFollowItsOptions) {
  EXPECT_TRUE(StrategyChoice(ParameterServer{}).traits().keeps_bits);
  EXPECT_FALSE(StrategyChoice(ParameterServer{.consistency = "asp:9, bsp"}).traits().keeps_bits);
  EXPECT_EQ(StrategyChoice(ParameterServer{.servers = 2, .copies = 2}).server_processes().count, 2);
  EXPECT_EQ(StrategyChoice(SharedSync{}).server_processes().count, 0);
  EXPECT_EQ(strategies_with(&Traits::lanes_meet), "all_reduce");
}

// A job's options are not a program's: what the two begin with is said in one place each, and neither leaks.
TEST(StrategyRegistry, AProgramBeginsWithTheStructsOptionsAndAJobFileWithTheRegistrys) {
  EXPECT_EQ(default_strategy().describe(), StrategyChoice(SharedSync{}).describe());
  EXPECT_FALSE(default_strategy().get<SharedSync>()->exchange_early);
  EXPECT_TRUE(strategy_named("shared_sync").get<SharedSync>()->exchange_early);
  EXPECT_TRUE(default_strategy().is_kind_of(all_strategies().front()));
  const StrategyChoice of_job = strategy_named("parameter_server");
  EXPECT_EQ(of_job.get<ParameterServer>()->servers, 1);
  EXPECT_EQ(of_job.with_defaults().get<ParameterServer>()->servers, 0);
  EXPECT_TRUE(of_job.is_kind_of(ParameterServer{.copies = 2}));
  EXPECT_FALSE(of_job.is_kind_of(default_strategy()));
}

TEST(StrategyRegistry, AnUnknownNameGetsTheNearestOne) {
  try {
    strategy_named("shared_sink");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("did you mean \"shared_sync\""));
  }
}

}  // namespace
}  // namespace muster::strategies
