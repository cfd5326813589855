// An update in slices and lanes against one in a single piece; interrupted anywhere and done again it gives the same
// bits.
#include "muster/compute/slice_update.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "muster/base/random.h"

namespace muster::compute {
namespace {

using model::FlatLayout;

// Memory of a small model: two versions and some lanes, filled from a keyed stream.
struct Host {
  Host(const std::vector<model::TensorInfo>& tensors, const OptimizerOptions& options, std::size_t lane_count)
      : layout(tensors), optimizer(make_optimizer(options)), rules(tensors.size()) {
    RandomStream random({.seed = 7});
    for (auto& store : versions) {
      store.parameters.resize(layout.size());
      for (auto& slot : store.state)
        slot.resize(layout.size());
      store.updates.resize(tensors.size());
    }
    for (float& value : versions[0].parameters)
      value = static_cast<float>(random.normal());
    gradients.resize(lane_count);
    present.assign(lane_count, std::vector<std::uint8_t>(tensors.size(), 1));
    for (auto& gradient : gradients) {
      gradient.resize(layout.size());
      for (float& value : gradient)
        value = static_cast<float>(random.normal());
    }
    for (TensorRule& rule : rules)
      rule.weight_decay = weight_decay(options);
  }

  Version version(std::size_t index) {
    Store& store = versions[index];
    Version version{store.parameters, {}, store.updates};
    for (int slot = 0; slot < optimizer->slots(); ++slot) {
      version.state[static_cast<std::size_t>(slot)] = store.state[static_cast<std::size_t>(slot)];
    }
    return version;
  }
  std::vector<LaneGradient> lanes() const {
    std::vector<LaneGradient> result;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      result.push_back({gradients[i].data(), present[i].data()});
    return result;
  }
  UpdateRule rule(std::optional<double> clip = std::nullopt) const { return {optimizer.get(), 0.1, clip, rules}; }

  // One step over the given slices, stage by stage.
  Verdict step(const std::vector<BlockRange>& slices, std::optional<double> clip = std::nullopt) {
    std::vector<BlockSum> records(layout.blocks().size());
    std::vector<Norms> norms(layout.blocks().size());
    std::vector<std::uint8_t> marks;
    const std::vector<LaneGradient> gradients = lanes();
    const LaneGradient sum = sum_of(gradients, version(1).parameters, layout.tensors().size(), marks);
    for (const BlockRange& slice : slices)
      sum_and_examine_slice(layout, gradients, sum, slice, version(1).parameters, records);
    const Verdict verdict = judge_step(records, clip);
    if (!verdict.apply) return verdict;
    if (optimizer->needs_norms()) {
      for (const BlockRange& slice : slices) {
        measure_slice(layout, sum, rule(clip), verdict, slice, version(0), norms);
      }
    }
    for (const BlockRange& slice : slices) {
      update_slice(layout, sum, rule(clip), verdict, slice, version(0), version(1), norms);
    }
    return verdict;
  }
  BlockRange whole() const { return {0, layout.blocks().size()}; }

  struct Store {
    std::vector<float> parameters;
    std::array<std::vector<float>, 2> state;
    std::vector<std::uint64_t> updates;
  };
  FlatLayout layout;
  std::shared_ptr<const Optimizer> optimizer;
  std::vector<TensorRule> rules;
  std::array<Store, 2> versions;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<std::uint8_t>> present;
};

// A tensor of several blocks, one that ends inside a block, a scalar and an odd one.
std::vector<model::TensorInfo> tensors() {
  const auto block = static_cast<std::int64_t>(model::kBlockFloats);
  return {{"a", {3, block}}, {"b", {block + 1}}, {"c", {}}, {"d", {5, 7}}};
}

class SliceUpdate : public ::testing::TestWithParam<OptimizerOptions> {};

INSTANTIATE_TEST_SUITE_P(AllOptimizers, SliceUpdate,
                         ::testing::Values(OptimizerOptions(Sgd{.momentum = 0.9, .weight_decay = 1e-3}),
                                           OptimizerOptions(Sgd{}), OptimizerOptions(Adam{}), OptimizerOptions(AdamW{}),
                                           OptimizerOptions(Lars{}), OptimizerOptions(Lamb{})));

TEST_P(SliceUpdate, GivesTheSameBitsHoweverBlocksAreShared) {
  for (const std::size_t lane_count : {1, 2, 3, 7}) {
    Host whole(tensors(), GetParam(), lane_count);
    Host shared(tensors(), GetParam(), lane_count);
    whole.step({whole.whole()}, 0.5);
    const std::size_t blocks = shared.layout.blocks().size();
    // Out of order, as workers finish: the last slice first.
    shared.step({{5, blocks}, {0, 1}, {1, 4}, {4, 5}}, 0.5);
    EXPECT_EQ(whole.versions[1].parameters, shared.versions[1].parameters) << lane_count << " lanes";
    EXPECT_EQ(whole.versions[1].state, shared.versions[1].state);
    EXPECT_EQ(whole.versions[1].updates, shared.versions[1].updates);
  }
}

TEST_P(SliceUpdate, LeavesTheCurrentVersionAndTheLanesAlone) {
  Host host(tensors(), GetParam(), 2);
  const auto before = host.versions[0].parameters;
  const auto gradients = host.gradients;
  host.step({host.whole()});
  EXPECT_EQ(host.versions[0].parameters, before);
  EXPECT_EQ(host.gradients, gradients);
}

TEST_P(SliceUpdate, CanBeDoneAgainAfterACrashAnywhere) {
  Host once(tensors(), GetParam(), 3);
  Host again(tensors(), GetParam(), 3);
  once.step({once.whole()});
  again.step({{0, 3}, {2, 5}, {0, again.layout.blocks().size()}});  // phases repeated over overlapping parts
  again.step({again.whole()});                                      // and the whole step from the start
  EXPECT_EQ(once.versions[1].parameters, again.versions[1].parameters);
  EXPECT_EQ(once.versions[1].state, again.versions[1].state);
}

TEST_P(SliceUpdate, ATensorWithoutGradientIsCarriedOver) {
  Host host(tensors(), GetParam(), 2);
  const std::size_t tensor = 1;  // of the layout: "c", the scalar
  ASSERT_EQ(host.layout.tensors()[tensor].name, "c");
  for (auto& lane : host.present)
    lane[tensor] = 0;
  host.versions[0].updates[tensor] = 5;
  host.versions[1].parameters.assign(host.layout.size(), 99.0F);  // what version k-1 left
  host.step({host.whole()});
  const std::uint64_t at = host.layout.tensors()[tensor].offset;
  EXPECT_EQ(host.versions[1].parameters[at], host.versions[0].parameters[at]);
  EXPECT_EQ(host.versions[1].updates[tensor], 5U);
  EXPECT_EQ(host.versions[1].updates[0], 1U);
}

TEST_P(SliceUpdate, AFrozenTensorIsNeverWritten) {
  Host host(tensors(), GetParam(), 2);
  host.rules[0].trainable = false;
  for (auto& lane : host.present)
    lane[0] = 0;
  host.versions[1].parameters = host.versions[0].parameters;
  host.step({host.whole()});
  const model::TensorSlot& slot = host.layout.tensors()[0];
  for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i) {
    ASSERT_EQ(host.versions[1].parameters[i], host.versions[0].parameters[i]);
  }
}

TEST(SliceUpdateGradients, ALaneWithoutATensorCountsAsNothingNotAsZeroUpdates) {
  // Plain SGD without decay: w' = w - lr * (sum over the lanes that have the tensor).
  Host host({{"w", {4}}}, Sgd{}, 3);
  host.present[1][0] = 0;
  host.step({host.whole()});
  for (std::size_t i = 0; i < 4; ++i) {
    const float expected = host.versions[0].parameters[i] - 0.1F * (host.gradients[0][i] + host.gradients[2][i]);
    EXPECT_FLOAT_EQ(host.versions[1].parameters[i], expected);
  }
}

TEST(SliceUpdateGradients, TheNormIsThatOfTheSumOverLanes) {
  Host host(tensors(), Sgd{}, 2);
  const Verdict verdict = host.step({host.whole()}, 1.0);
  double squares = 0;
  for (const model::TensorSlot& slot : host.layout.tensors()) {
    for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i) {
      const double sum = static_cast<double>(host.gradients[0][i]) + static_cast<double>(host.gradients[1][i]);
      squares += sum * sum;
    }
  }
  EXPECT_NEAR(verdict.gradient_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
  EXPECT_NEAR(verdict.gradient_scale, 1.0 / std::sqrt(squares), 1e-6);
}

TEST(SliceUpdateGradients, AnyNonFiniteElementSkipsTheStep) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t lane : {0, 1}) {
      Host host(tensors(), Sgd{}, 2);
      host.gradients[lane][host.layout.tensors().back().offset + 3] = bad;
      EXPECT_FALSE(host.step({host.whole()}).apply);
    }
  }
}

TEST(SliceUpdateGradients, LanesThatOverflowOnlyTogetherSkipTheStep) {
  Host host({{"w", {4}}}, Sgd{}, 2);
  host.gradients[0][2] = host.gradients[1][2] = 3e38F;
  EXPECT_FALSE(host.step({host.whole()}).apply);
}

// Sums may come from elsewhere between the two, so each has to be whole by itself.
TEST(SliceStages, SumAndExamineOneAfterTheOtherGiveTheBitsOfBothAtOnce) {
  const std::vector<model::TensorInfo> tensors{{"large", {100000}}, {"rare", {300}}, {"absent", {20}}};
  for (const std::size_t lane_count : {1, 2, 3, 7}) {
    Host host(tensors, Sgd{}, lane_count);
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      const std::string& name = host.layout.tensors()[tensor].name;
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        host.present[lane][tensor] = name == "large" || (name == "rare" && lane + 1 == lane_count) ? 1 : 0;
    }
    const std::vector<LaneGradient> lanes = host.lanes();
    const std::size_t blocks = host.layout.blocks().size();
    ASSERT_GT(blocks, 5U) << "more than stay in the caches together";
    constexpr float kUntouched = 99.0F;

    std::vector<float> fused(host.layout.size(), kUntouched);
    std::vector<BlockSum> fused_records(blocks);
    std::vector<std::uint8_t> fused_marks;
    sum_and_examine_slice(host.layout, lanes, sum_of(lanes, fused, tensors.size(), fused_marks), host.whole(), fused,
                          fused_records);

    // All sums first, in slices of one block, then all records in two halves, the last one first.
    std::vector<float> sums(host.layout.size(), kUntouched);
    std::vector<BlockSum> records(blocks);
    for (std::size_t block = 0; block < blocks; ++block)
      sum_slice(host.layout, lanes, {block, block + 1}, sums);
    std::vector<std::uint8_t> marks;
    const LaneGradient sum{sums.data(), sum_of(lanes, sums, tensors.size(), marks).present};
    examine_slice(host.layout, sum, {blocks / 2, blocks}, records);
    examine_slice(host.layout, sum, {0, blocks / 2}, records);

    for (std::size_t block = 0; block < blocks; ++block) {
      EXPECT_EQ(records[block].squares, fused_records[block].squares) << lane_count << " lanes, block " << block;
      EXPECT_EQ(records[block].finite, fused_records[block].finite);
    }
    // With one lane nothing is summed at once: the lane itself is the sum.
    const std::vector<float>& expected = lane_count == 1 ? host.gradients[0] : fused;
    for (const model::TensorSlot& slot : host.layout.tensors()) {
      const bool absent = slot.name == "absent";
      for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i)
        ASSERT_EQ(sums[i], absent ? kUntouched : expected[i]) << slot.name << ", " << lane_count << " lanes";
    }
    EXPECT_EQ(judge_step(records, 1.0).gradient_scale, judge_step(fused_records, 1.0).gradient_scale);
  }
}

// A model in three parts: momentum, LAMB, and one that nothing trains. Each tensor comes to what its own optimizer
// would have made of it, stage by stage and, without norms, at once.
TEST(SliceUpdateOfParts, EveryTensorFollowsItsOwnPartsRule) {
  const OptimizerOptions first = Sgd{.lr = 0.1, .momentum = 0.9};
  for (const OptimizerOptions& second : {OptimizerOptions(Lamb{}), OptimizerOptions(Adam{})}) {
    const auto other = make_optimizer(second);
    Host host(tensors(), second, 2);  // room for two slots
    const auto own = make_optimizer(first);
    // Tensors lie in backward order: d, c, b, a.
    const std::vector<std::size_t> parts{0, 1, 2, 1};
    for (std::size_t tensor = 0; tensor < parts.size(); ++tensor) {
      host.rules[tensor] = {.weight_decay = 0, .trainable = parts[tensor] != 2, .part = parts[tensor]};
      for (auto& present : host.present)
        present[tensor] = parts[tensor] != 2 ? 1 : 0;
    }
    const std::vector<PartRule> more{{other.get(), 0.01}, {nullptr, 0}};
    const UpdateRule rule{own.get(), 0.1, std::nullopt, host.rules, more};
    EXPECT_EQ(rule.slots(), 2U);
    EXPECT_EQ(rule.needs_norms(), other->needs_norms());
    const auto run = [&](Host& of, const UpdateRule& by) {
      std::vector<BlockSum> records(of.layout.blocks().size());
      std::vector<Norms> norms(of.layout.blocks().size());
      std::vector<std::uint8_t> marks;
      const std::vector<LaneGradient> lanes = of.lanes();
      const LaneGradient sum = sum_of(lanes, of.version(1).parameters, of.layout.tensors().size(), marks);
      sum_and_examine_slice(of.layout, lanes, sum, of.whole(), of.version(1).parameters, records);
      const Verdict verdict = judge_step(records, by.clip_norm);
      if (by.needs_norms()) measure_slice(of.layout, sum, by, verdict, of.whole(), of.version(0), norms);
      update_slice(of.layout, sum, by, verdict, of.whole(), of.version(0), of.version(1), norms);
    };
    Host all_first = host;
    Host all_second = host;
    for (Host* one : {&all_first, &all_second}) {
      for (TensorRule& tensor : one->rules)
        tensor.part = 0;
    }
    run(all_first, {own.get(), 0.1, std::nullopt, all_first.rules});
    run(all_second, {other.get(), 0.01, std::nullopt, all_second.rules});
    const std::vector<float> untouched = host.versions[1].parameters;
    run(host, rule);
    const auto expect_tensor = [&](std::size_t tensor, const std::vector<float>& got,
                                   const std::vector<float>& wanted) {
      const model::TensorSlot& slot = host.layout.tensors()[tensor];
      for (std::size_t i = slot.offset; i < slot.offset + slot.count; ++i)
        ASSERT_EQ(got[i], wanted[i]) << slot.name;
    };
    for (std::size_t tensor = 0; tensor < parts.size(); ++tensor) {
      const Host& like = parts[tensor] == 0 ? all_first : all_second;
      const bool trains = parts[tensor] != 2;
      expect_tensor(tensor, host.versions[1].parameters, trains ? like.versions[1].parameters : untouched);
      if (!trains) continue;
      expect_tensor(tensor, host.versions[1].state[0], like.versions[1].state[0]);
      // Of the first part's second slot nothing was ever written.
      const std::vector<float> zeros(host.layout.size());
      expect_tensor(tensor, host.versions[1].state[1], parts[tensor] == 0 ? zeros : like.versions[1].state[1]);
    }
    // Where the program may write afterwards, what does not train is copied like what has no gradient.
    const AfterUpdate after = [](std::span<float>, std::span<std::byte>) {};
    UpdateRule writable = rule;
    writable.after = &after;
    run(host, writable);
    expect_tensor(2, host.versions[1].parameters, host.versions[0].parameters);
    if (other->needs_norms()) continue;
    const std::vector<float> staged = host.versions[1].parameters;
    std::vector<BlockSum> records(host.layout.blocks().size());
    update_slice_at_once(host.layout, host.lanes(), writable, host.whole(), host.version(0), host.version(1), records);
    EXPECT_EQ(host.versions[1].parameters, staged);
  }
}

TEST(JudgeStep, ClipsOnlyWhatIsTooLong) {
  const std::vector<BlockSum> records{{9.0, true}, {16.0, true}};
  EXPECT_DOUBLE_EQ(judge_step(records, std::nullopt).gradient_norm, 5.0);
  EXPECT_EQ(judge_step(records, std::nullopt).gradient_scale, 1.0F);
  EXPECT_EQ(judge_step(records, 10.0).gradient_scale, 1.0F);
  EXPECT_NEAR(judge_step(records, 1.0).gradient_scale, 0.2, 1e-6);
}

// All phases in one pass: the bits of one after the other.
TEST(SliceUpdateAtOnce, GivesTheBitsOfPhases) {
  for (const OptimizerOptions& options :
       {OptimizerOptions(Sgd{.lr = 0.1, .momentum = 0.9}), OptimizerOptions(AdamW{})}) {
    for (const std::size_t lanes : {1, 2, 3}) {
      const std::vector<model::TensorInfo> tensors{
          {"large", {50000}}, {"rare", {300}}, {"absent", {20}}, {"frozen", {9}, false}};
      Host phases(tensors, options, lanes);
      const auto mark = [&](Host& host) {
        for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
          const model::TensorSlot& slot = host.layout.tensors()[tensor];
          host.rules[tensor].trainable = slot.trainable;
          for (std::size_t lane = 0; lane < lanes; ++lane) {
            const bool rare = slot.name == "rare" && lane + 1 < lanes;
            host.present[lane][tensor] = slot.trainable && slot.name != "absent" && !rare ? 1 : 0;
          }
        }
      };
      mark(phases);
      Host at_once(tensors, options, lanes);
      mark(at_once);
      const Verdict expected = phases.step({phases.whole()});
      ASSERT_TRUE(updates_at_once(at_once.rule()));
      EXPECT_FALSE(updates_at_once(at_once.rule(1.0))) << "clipping depends on all blocks";
      std::vector<BlockSum> records(at_once.layout.blocks().size());
      const std::size_t half = records.size() / 2;
      for (const BlockRange slice : {BlockRange{0, half}, BlockRange{half, records.size()}})
        update_slice_at_once(at_once.layout, at_once.lanes(), at_once.rule(), slice, at_once.version(0),
                             at_once.version(1), records);
      const Verdict verdict = judge_step(records, std::nullopt);
      EXPECT_TRUE(verdict.apply);
      EXPECT_EQ(verdict.gradient_norm, expected.gradient_norm);
      EXPECT_EQ(at_once.versions[1].parameters, phases.versions[1].parameters) << lanes << " lanes";
      EXPECT_EQ(at_once.versions[1].state, phases.versions[1].state);
      EXPECT_EQ(at_once.versions[1].updates, phases.versions[1].updates);
      const std::size_t last = at_once.layout.tensors().size() - 1;  // "large": tensors lie in backward order
      at_once.gradients[lanes - 1][at_once.layout.tensors()[last].offset + 7] = std::numeric_limits<float>::infinity();
      update_slice_at_once(at_once.layout, at_once.lanes(), at_once.rule(), at_once.whole(), at_once.version(0),
                           at_once.version(1), records);
      EXPECT_FALSE(judge_step(records, std::nullopt).apply);
    }
  }
}

}  // namespace
}  // namespace muster::compute
