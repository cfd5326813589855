// Counts against published figures and against formulas worked out by hand.
#include "muster/model/profile.h"

#include <gmock/gmock.h>

#include <limits>

#include "muster/base/error.h"
#include "muster/model/make_model.h"

namespace muster::model {
namespace {

ModelProfile profile_of(const std::string& name) {
  return profile_model(find_model(name).typical);
}

// Published figures of torchvision's page (GFLOPS, which are multiply-adds) and of the papers.
TEST(Profile, CountsThePublishedMultiplyAdds) {
  EXPECT_NEAR(1e-9 * static_cast<double>(profile_of("resnet18").multiply_adds), 1.814, 0.001);
  EXPECT_NEAR(1e-9 * static_cast<double>(profile_of("resnet50").multiply_adds), 4.089, 0.001);
  EXPECT_NEAR(1e-9 * static_cast<double>(profile_of("wide_resnet50_2").multiply_adds), 11.398, 0.001);
  EXPECT_NEAR(1e-9 * static_cast<double>(profile_of("wrn-28-10").multiply_adds), 5.2, 0.1);
  EXPECT_NEAR(1e-6 * static_cast<double>(profile_of("resnet20").multiply_adds), 40.6, 0.3);
  EXPECT_NEAR(1e-6 * static_cast<double>(profile_of("fbnet_a").multiply_adds), 249, 2);
  EXPECT_NEAR(1e-6 * static_cast<double>(profile_of("fbnet_b").multiply_adds), 295.6, 1.5);
  EXPECT_NEAR(1e-6 * static_cast<double>(profile_of("fbnet_c").multiply_adds), 383.0, 2.5);
}

TEST(Profile, ItsLayersHoldAllParameters) {
  for (const char* name : {"mlp", "cnn", "resnet18", "resnet50", "resnet20", "wrn-10-2", "fbnet_a", "lstm", "gru",
                           "transformer", "wide_deep"}) {
    ModelOptions options = find_model(name).typical;
    if (options.input_shape.size() == 3) options.input_shape = {3, 32, 32};
    std::int64_t parameters = 0;
    for (const auto& parameter : make_model(options, 1)->parameters())
      parameters += parameter.numel();
    const ModelProfile profile = profile_model(options);
    EXPECT_EQ(profile.parameters, parameters) << name;
    EXPECT_GT(profile.multiply_adds, 0) << name;
  }
}

TEST(Profile, NamesLayersInOrderWithShapesAndCosts) {
  const ModelProfile profile = profile_model({.name = "mlp", .input_shape = {6}, .classes = 2, .hidden = {{4}}});
  ASSERT_EQ(profile.layers.size(), 2u);
  EXPECT_EQ(profile.layers[0].name, "fc1");
  EXPECT_EQ(profile.layers[0].kind, "Linear");
  EXPECT_EQ(profile.layers[0].output, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(profile.layers[0].parameters, 6 * 4 + 4);
  EXPECT_EQ(profile.layers[0].multiply_adds, 6 * 4);
  EXPECT_EQ(profile.layers[1].name, "fc2");
  EXPECT_EQ(profile.parameters, 28 + 10);
  EXPECT_EQ(profile.parameter_bytes, 4u * 38);
  EXPECT_EQ(profile.buffer_bytes, 0u);
}

// Per position: 12 w^2 for the weights of a block, 2 t w for its attention, w v for the scores.
TEST(Profile, CountsAttentionAndTiedWeights) {
  ModelOptions options{
      .name = "transformer", .input_shape = {10}, .classes = 30, .each_position = true, .vocabulary = 30};
  options.width = 16;
  options.depth = 2;
  const ModelProfile profile = profile_model(options);
  EXPECT_EQ(profile.multiply_adds, 10 * (2 * (12 * 16 * 16 + 2 * 10 * 16) + 16 * 30));
  EXPECT_THAT(profile.layers, ::testing::Contains(::testing::Field(&LayerProfile::name, "h.0.attn.*")));
  // Positions have parameters and no layer.
  EXPECT_EQ(profile.layers.back().name, "wpe");
  EXPECT_EQ(profile.layers.back().parameters, 160);
}

TEST(Profile, CountsEveryPositionOfARecurrence) {
  ModelOptions options{.name = "lstm", .input_shape = {10}, .classes = 30, .each_position = true, .vocabulary = 30};
  options.width = 8;
  options.depth = 1;
  options.embedding = 5;
  EXPECT_EQ(profile_model(options).multiply_adds, 10 * (4 * 8 * (5 + 8) + 8 * 30));
}

TEST(Profile, LeavesTorchsRandomNumbersAlone) {
  const ModelOptions options{.name = "mlp", .input_shape = {6}, .dropout = 0.5};
  torch::manual_seed(7);
  const auto expected = torch::rand({3});
  torch::manual_seed(7);
  profile_model(options);
  measure_step_memory(options);
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected));
}

// One hidden layer of width w: what backward needs of a sample is its input and the activations, each 4 bytes; the
// gradients on the way back are of the same sizes.
TEST(StepMemory, GrowsWithTheSampleAsTheActivationsDo) {
  const auto memory = measure_step_memory({.name = "mlp", .input_shape = {10}, .classes = 2, .hidden = {{100'000}}});
  EXPECT_GE(memory.sample_bytes, 400'000u);
  EXPECT_LE(memory.sample_bytes, 4 * 400'000u);
  // Temporary gradients of the weights, which batches do not change.
  EXPECT_GE(memory.fixed_bytes, 800'000u);
  EXPECT_EQ(memory.of(10), memory.fixed_bytes + 10 * memory.sample_bytes);
}

// Forward keeps nothing for backward.
TEST(ModelMemory, OfForwardIsLessThanOfAStep) {
  const ModelMemory memory =
      measure_model_memory({.name = "cnn", .input_shape = {1, 28, 28}}, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(memory.parameter_bytes, profile_model({.name = "cnn", .input_shape = {1, 28, 28}}).parameter_bytes);
  EXPECT_GT(memory.buffer_bytes, 0u);
  EXPECT_GT(memory.forward.sample_bytes, 0u);
  EXPECT_LT(memory.forward.sample_bytes, memory.step.sample_bytes);
}

TEST(ModelMemory, AModelThatTakesMoreThanItMayIsLeftBeforeItsMemoryIsTouched) {
  // 4 GB of parameters; building it to the end would take many seconds.
  const ModelOptions options{.name = "mlp", .input_shape = {1000}, .hidden = {{1'000'000}}};
  try {
    measure_model_memory(options, 1 << 30);
    FAIL() << "it fits?";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
  }
}

}  // namespace
}  // namespace muster::model
