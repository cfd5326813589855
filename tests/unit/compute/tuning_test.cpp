// Patterns that overlap, that thaw, and that fit nothing.
#include "muster/compute/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kParameters{"conv1.weight", "bn1.weight", "layer1.weight", "layer2.weight", "fc.weight"};
const std::vector<std::string> kBuffers{"bn1.running_mean"};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.message();
  }
  return {};
}

TEST(Tuning, FrozenTensorsThawWhenTheLastFittingPatternSaysSo) {
  Tuning tuning;
  tuning.freeze = {"conv1.*", "bn1.*", "layer*"};
  tuning.unfreeze = {{"layer*", 3}, {"layer2.*", 1}};
  EXPECT_EQ(frozen_epochs(tuning, "conv1.weight"), kFrozenForever);
  EXPECT_EQ(frozen_epochs(tuning, "bn1.running_mean"), kFrozenForever);
  EXPECT_EQ(frozen_epochs(tuning, "layer1.weight"), 3U);
  EXPECT_EQ(frozen_epochs(tuning, "layer2.weight"), 1U);
  EXPECT_EQ(frozen_epochs(tuning, "fc.weight"), 0U);
  check_tuning(tuning, kParameters, kBuffers);
}

TEST(Tuning, TheLastFactorThatFitsCounts) {
  Tuning tuning;
  tuning.lr_factors = {{"*", 0.5}, {"layer*", 0.1}, {"layer2.*", 2}};
  EXPECT_EQ(lr_factor(tuning, "fc.weight"), 0.5);
  EXPECT_EQ(lr_factor(tuning, "layer1.weight"), 0.1);
  EXPECT_EQ(lr_factor(tuning, "layer2.weight"), 2);
  EXPECT_EQ(lr_factor({}, "fc.weight"), 1);
  tuning.decay_factors = {{"*", 2}, {"layer1.*", 0}};
  EXPECT_EQ(decay_factor(tuning, "fc.weight"), 2);
  EXPECT_EQ(decay_factor(tuning, "layer1.weight"), 0);
  EXPECT_EQ(decay_factor({}, "fc.weight"), 1);
}

TEST(Tuning, PatternsThatDoNothingAreRefused) {
  const auto check = [](const Tuning& tuning) { return refusal([&] { check_tuning(tuning, kParameters, kBuffers); }); };
  EXPECT_EQ(check({}), "");
  EXPECT_THAT(check({.freeze = {"layer9.*"}, .unfreeze = {}, .lr_factors = {}}), HasSubstr("layer9"));
  EXPECT_THAT(check({.freeze = {"layer1.*"}, .unfreeze = {{"fc.*", 1}}, .lr_factors = {}}), HasSubstr("fc"));
  EXPECT_THAT(check({.freeze = {}, .unfreeze = {}, .lr_factors = {{"bn1.running_mean", 2}}}),
              HasSubstr("running_mean"));
  EXPECT_THAT(check({.freeze = {"*"}, .unfreeze = {{"*", 2}}, .lr_factors = {}}), HasSubstr("first epoch"));
  Tuning factors;
  factors.decay_factors = {{"layer9.*", 0}};
  EXPECT_THAT(check(factors), HasSubstr("layer9"));
  factors.decay_factors = {{"*", -1}};
  EXPECT_THAT(check(factors), HasSubstr("-1"));
  factors = {};
  factors.lr_factors = {{"*", 0}};
  EXPECT_THAT(check(factors), HasSubstr("no rate"));
}

TEST(Tuning, NumbersAreChecked) {
  for (const char* const bad : {"fc.*=0", "fc.*=1.5", "fc.*=-1", "fc.*=1e10", "fc.*"}) {
    EXPECT_NE(refusal([&] { parse_unfreeze(std::vector<std::string>{bad}); }), "") << bad;
  }
  for (const char* const bad : {"fc.*=0", "fc.*=-1", "fc.*"}) {
    EXPECT_NE(refusal([&] { parse_lr_factors(std::vector<std::string>{bad}); }), "") << bad;
  }
  EXPECT_EQ(parse_lr_factors(std::vector<std::string>{"fc.*=0.1"})[0].number, 0.1);
}

}  // namespace
}  // namespace muster::compute
