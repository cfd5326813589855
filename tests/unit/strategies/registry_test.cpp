#include "muster/strategies/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::strategies {
namespace {

TEST(StrategyRegistry, MakesEveryStrategyItNames) {
  for (const std::string& name : strategy_names()) {
    EXPECT_NE(make_strategy(name, {model::FlatLayout({{"w", {3}}}), {}, 0, 1}), nullptr) << name;
  }
}

TEST(StrategyRegistry, AnUnknownNameGetsTheNearestOne) {
  try {
    make_strategy("shared_sink", {model::FlatLayout({{"w", {3}}}), {}, 0, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("did you mean \"shared_sync\""));
  }
}

}  // namespace
}  // namespace muster::strategies
