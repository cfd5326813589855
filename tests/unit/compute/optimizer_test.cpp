// What all optimizers promise alike. Single algorithms: sgd_torch_test, adam_torch_test, lars_test, lamb_test.
#include "muster/compute/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"
#include "unit/compute/samples.h"

namespace muster::compute {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::pair<std::string, OptimizerOptions>>& every_kind() {
  static const std::vector<std::pair<std::string, OptimizerOptions>> kinds = {
      {"sgd", Sgd{}},
      {"sgd momentum", Sgd{.momentum = 0.9, .dampening = 0.1, .weight_decay = 1e-2}},
      {"sgd nesterov", Sgd{.momentum = 0.9, .weight_decay = 1e-2, .nesterov = true}},
      {"adam", Adam{}},
      {"adam decay", Adam{.weight_decay = 1e-2}},
      {"adamw", AdamW{}},
      {"lars", Lars{}},
      {"lars nesterov", Lars{.nesterov = true}},
      {"lamb", Lamb{}},
  };
  return kinds;
}

struct Version {
  std::vector<float> parameters;
  std::array<std::vector<float>, kMaxSlots> state;
  bool operator==(const Version&) const = default;
};

Version start(const Optimizer& optimizer, std::size_t size) {
  Version version{samples(size, 1), {}};
  for (int slot = 0; slot < optimizer.slots(); ++slot) {
    // Second moments are never negative.
    std::vector<float> state = samples(size, 10 + static_cast<std::uint64_t>(slot));
    for (float& value : state)
      value = std::abs(value);
    version.state[static_cast<std::size_t>(slot)] = std::move(state);
  }
  return version;
}

// One update in pieces of `piece` floats whose outputs start `skew` floats after a line of the cache.
Version updated(const Optimizer& optimizer, const Version& from, const TensorStep& step, std::size_t piece,
                Stores stores, std::size_t skew = 0) {
  const std::size_t size = from.parameters.size();
  const std::vector<float> gradient = samples(size, 3);
  LineArray parameters(size, skew);
  std::array<LineArray, kMaxSlots> state{LineArray(size, skew), LineArray(size, skew)};
  for (std::size_t begin = 0; begin < size; begin += piece) {
    const std::size_t count = std::min(piece, size - begin);
    BlockInput input{
        std::span(from.parameters).subspan(begin, count), std::span(gradient).subspan(begin, count), {}, 0.75F};
    BlockOutput output{parameters.span().subspan(begin, count), {}, stores};
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer.slots()); ++slot) {
      input.state[slot] = std::span(from.state[slot]).subspan(begin, count);
      output.state[slot] = state[slot].span().subspan(begin, count);
    }
    optimizer.update(input, step, 0.5, output);
  }
  Version result{parameters.values(), {}};
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer.slots()); ++slot) {
    result.state[slot] = state[slot].values();
  }
  return result;
}

TEST(Optimizer, BlocksCutAnyhowAndStreamedStoresGiveTheSameBits) {
  for (const auto& kind : every_kind()) {
    const auto optimizer = make_optimizer(kind.second);
    for (const std::uint64_t number : {1U, 5U}) {
      const TensorStep step{.lr = 0.1, .weight_decay = weight_decay(kind.second), .step = number};
      const Version from = start(*optimizer, 1233);
      const Version whole = updated(*optimizer, from, step, 1233, Stores::kCached);
      ASSERT_NE(whole.parameters, from.parameters) << kind.first;
      for (const std::size_t piece : {1U, 7U, 16U, 17U, 48U, 1232U, 1233U}) {
        for (const Stores stores : {Stores::kCached, Stores::kStreamed}) {
          for (const std::size_t skew : {0U, 1U, 4U}) {
            EXPECT_EQ(updated(*optimizer, from, step, piece, stores, skew), whole)
                << kind.first << " step " << number << " piece " << piece << " skew " << skew;
          }
        }
      }
    }
  }
}

TEST(Optimizer, AnEmptyBlockIsNothing) {
  for (const auto& kind : every_kind()) {
    const auto optimizer = make_optimizer(kind.second);
    for (const Stores stores : {Stores::kCached, Stores::kStreamed}) {
      optimizer->update({}, {.lr = 0.1}, 1, {.parameters = {}, .state = {}, .stores = stores});
    }
    const Norms norms = optimizer->norms({}, {});
    EXPECT_EQ(norms.parameters_squared, 0);
    EXPECT_EQ(norms.update_squared, 0);
  }
}

TEST(Optimizer, ScaleOfTheGradientIsClipping) {
  // A power of two scales exactly, so both ways must agree to the bit.
  for (const auto& kind : every_kind()) {
    const auto optimizer = make_optimizer(kind.second);
    const Version from = start(*optimizer, 50);
    const std::vector<float> gradient = samples(50, 3);
    std::vector<float> halved = gradient;
    for (float& value : halved)
      value /= 2;
    const auto run = [&](const std::vector<float>& used, float scale) {
      Version result = from;
      BlockInput input{from.parameters, used, {}, scale};
      BlockOutput output{result.parameters, {}};
      for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer->slots()); ++slot) {
        input.state[slot] = from.state[slot];
        output.state[slot] = result.state[slot];
      }
      const TensorStep step{.lr = 0.1, .weight_decay = 0.01, .step = 2};
      const double ratio = optimizer->trust_ratio(optimizer->norms(input, step), step);
      optimizer->update(input, step, ratio, output);
      return result;
    };
    EXPECT_EQ(run(gradient, 0.5F), run(halved, 1)) << kind.first;
  }
}

TEST(Optimizer, WithoutWeightDecayAnInfiniteParameterStaysOutOfTheState) {
  for (const OptimizerOptions& options : {OptimizerOptions(Sgd{.momentum = 0.9}), OptimizerOptions(Adam{})}) {
    const auto optimizer = make_optimizer(options);
    const float parameter = std::numeric_limits<float>::infinity();
    const float gradient = 1;
    const float zero = 0;
    float parameter_out, state0, state1;
    optimizer->update({{&parameter, 1}, {&gradient, 1}, {std::span(&zero, 1), std::span(&zero, 1)}}, {.lr = 0.1}, 1,
                      {{&parameter_out, 1}, {std::span(&state0, 1), std::span(&state1, 1)}});
    EXPECT_EQ(parameter_out, parameter);
    EXPECT_TRUE(std::isfinite(state0));
  }
}

TEST(Optimizer, NamesItsSlotsAsTorchDoes) {
  EXPECT_THAT(make_optimizer(Sgd{})->slot_names(), ElementsAre());
  EXPECT_THAT(make_optimizer(Sgd{.momentum = 0.9})->slot_names(), ElementsAre("momentum_buffer"));
  EXPECT_THAT(make_optimizer(Adam{})->slot_names(), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(make_optimizer(AdamW{})->slot_names(), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(make_optimizer(Lars{})->slot_names(), ElementsAre("momentum_buffer"));
  EXPECT_THAT(make_optimizer(Lamb{})->slot_names(), ElementsAre("exp_avg", "exp_avg_sq"));
}

TEST(Optimizer, OnlyLarsAndLambNeedNorms) {
  for (const auto& kind : every_kind()) {
    const bool layered = std::holds_alternative<Lars>(kind.second) || std::holds_alternative<Lamb>(kind.second);
    const auto optimizer = make_optimizer(kind.second);
    EXPECT_EQ(optimizer->needs_norms(), layered) << kind.first;
    if (layered) continue;
    EXPECT_EQ(optimizer->trust_ratio({2, 8}, {}), 1) << kind.first;
  }
}

TEST(Optimizer, BaseRateAndDecayAreThoseOfTheAlternative) {
  EXPECT_EQ(base_lr(Sgd{.lr = 0.3}), 0.3);
  EXPECT_EQ(base_lr(Lamb{.lr = 0.2}), 0.2);
  EXPECT_EQ(weight_decay(Adam{}), 0);
  EXPECT_EQ(weight_decay(AdamW{}), 1e-2);
  EXPECT_EQ(weight_decay(Lars{}), 1e-4);
}

TEST(Optimizer, OptionsOutOfRangeAreRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, OptimizerOptions>> bad = {
      {"sgd: lr = -1", Sgd{.lr = -1}},
      {"sgd: lr = nan", Sgd{.lr = nan}},
      {"sgd: momentum = -0.5", Sgd{.momentum = -0.5}},
      {"sgd: dampening = 2", Sgd{.momentum = 0.5, .dampening = 2}},
      {"sgd: weight_decay = inf", Sgd{.weight_decay = infinity}},
      {"sgd: momentum = 0 ", Sgd{.nesterov = true}},
      {"sgd: dampening = 0.1", Sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true}},
      {"adam: beta1 = 1", Adam{.beta1 = 1}},
      {"adam: beta2 = -0.1", Adam{.beta2 = -0.1}},
      {"adam: eps = -1", Adam{.eps = -1}},
      {"adamw: weight_decay = -1", AdamW{.weight_decay = -1}},
      {"lars: trust = nan", Lars{.trust = nan}},
      {"lars: momentum = -1", Lars{.momentum = -1}},
      {"lamb: beta2 = 1", Lamb{.beta2 = 1}},
      {"lamb: lr = inf", Lamb{.lr = infinity}},
  };
  for (const auto& entry : bad) {
    try {
      make_optimizer(entry.second);
      FAIL() << entry.first << " accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      EXPECT_THAT(error.what(), HasSubstr(entry.first));
    }
  }
}

TEST(OptimizerDeathTest, LengthsThatDoNotFitStopTheProcess) {
  const auto optimizer = make_optimizer(Sgd{.momentum = 0.9});
  const std::vector<float> four(4), three(3);
  std::vector<float> out(4), state_out(4);
  const BlockOutput output{out, {state_out}};
  EXPECT_DEATH(optimizer->update({four, three, {four}}, {}, 1, output), "another length");
  EXPECT_DEATH(optimizer->update({four, four, {three}}, {}, 1, output), "another length");
  EXPECT_DEATH(optimizer->update({three, three, {three}}, {}, 1, output), "another length");
  EXPECT_DEATH(optimizer->update({four, four, {four}}, {.step = 0}, 1, output), "count from 1");
}

}  // namespace
}  // namespace muster::compute
