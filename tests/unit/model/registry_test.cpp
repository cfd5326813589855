// Every model of the list can be built, and what a model does not know is refused.
#include "muster/model/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/make_model.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const ModelOptions& options) {
  try {
    make_model(options, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    return error.what();
  }
  return "built";
}

bool same_weights(const Net& a, const Net& b) {
  const auto left = a.parameters();
  const auto right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!torch::equal(left[i], right[i])) return false;
  }
  return left.size() == right.size();
}

TEST(Registry, ListsItsModelsWithHelp) {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models()) {
    names.push_back(entry.name);
    EXPECT_FALSE(entry.help.empty()) << entry.name;
  }
  EXPECT_THAT(names, ElementsAre("mlp", "cnn", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
                                 "wide_resnet50_2", "wide_resnet101_2", "resnet20", "resnet32", "resnet44", "resnet56",
                                 "resnet110", "wrn-28-10", "fbnet_a", "fbnet_b", "fbnet_c", "fbnet-8-16k3e3s2-32",
                                 "lstm", "gru", "transformer", "wide_deep"));
}

// With what it is usually given, but small pictures.
TEST(Registry, BuildsEveryModelItLists) {
  for (const ModelEntry& entry : models()) {
    ModelOptions options = entry.typical;
    EXPECT_EQ(options.name, entry.name);
    if (options.input_shape.size() == 3) options.input_shape = {3, 32, 32};
    options.classes = options.vocabulary.value_or(7);
    const auto net = make_model(options, 1);
    EXPECT_TRUE(net->is_training());
    std::vector<std::int64_t> shape{2};
    shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
    std::vector<std::int64_t> expected{2};
    if (options.each_position) expected.push_back(options.input_shape[0]);
    expected.push_back(options.classes);
    EXPECT_EQ(net->forward(torch::rand(shape)).sizes().vec(), expected) << entry.name;
  }
}

TEST(Registry, FindsModelsByPatternToo) {
  EXPECT_EQ(find_model("resnet20").typical.input_shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(find_model("wrn-16-4").name, "wrn-16-4");
  const auto net = make_model({.name = "wrn-10-2", .input_shape = {3, 8, 8}, .dropout = 0.3}, 1);
  EXPECT_EQ(net->named_parameters()["fc.weight"].sizes(), (torch::IntArrayRef{10, 128}));
  for (const char* name :
       {"wrn", "wrn-", "wrn-28", "wrn-28-", "wrn-28-10x", "wrn--4", "wrn-a-b", "wrn-99999999999-1"}) {
    EXPECT_THAT(refusal({.name = name, .input_shape = {3, 8, 8}}), HasSubstr("there is no model")) << name;
  }
  EXPECT_THAT(refusal({.name = "wrn-20-10", .input_shape = {3, 8, 8}}), HasSubstr("depth is 20; it must be 6n + 4"));
  EXPECT_THROW(find_model("resnet8"), Error);
}

TEST(Registry, BuildsModelsOfTextForTokensAndForNothingElse) {
  for (const char* name : {"transformer", "lstm", "gru"}) {
    ModelOptions options{.name = name, .input_shape = {9}, .classes = 30, .each_position = true, .vocabulary = 30};
    options.dropout = 0.1;
    EXPECT_EQ(make_model(options, 1)->forward(torch::zeros({2, 9})).sizes(), (torch::IntArrayRef{2, 9, 30})) << name;
    options.each_position = false;
    options.classes = 4;
    EXPECT_EQ(make_model(options, 1)->forward(torch::zeros({2, 9})).sizes(), (torch::IntArrayRef{2, 4})) << name;
    EXPECT_THAT(refusal({.name = name, .input_shape = {9}, .vocabulary = 30, .hidden = {{5}}}),
                HasSubstr("no option hidden"));
  }
  EXPECT_THAT(refusal({.name = "transformer", .input_shape = {1, 28, 28}}),
              HasSubstr("needs text, as sequences of tokens; the data has samples of 1x28x28 numbers"));
  EXPECT_THAT(refusal({.name = "transformer", .input_shape = {9}}), HasSubstr("needs text"));
  EXPECT_THAT(refusal({.name = "lstm", .input_shape = {9}}), HasSubstr("needs sequences"));
  const auto series = make_model({.name = "gru", .input_shape = {9, 5}, .classes = 3}, 1);
  EXPECT_EQ(series->forward(torch::zeros({2, 9, 5})).sizes(), (torch::IntArrayRef{2, 3}));
}

TEST(Registry, BuildsWideDeepForTablesAndForNothingElse) {
  const auto net = make_model({.name = "wide_deep", .input_shape = {6}, .classes = 3, .columns = {1, 4, 1}}, 1);
  EXPECT_EQ(net->forward(torch::zeros({2, 6})).sizes(), (torch::IntArrayRef{2, 3}));
  EXPECT_THAT(refusal({.name = "wide_deep", .input_shape = {6}}), HasSubstr("needs a table"));
}

TEST(Registry, RefusesScoresForEachPositionWhereThereAreNone) {
  for (const char* name : {"mlp", "cnn", "resnet20", "wrn-10-1", "fbnet_a", "wide_deep"}) {
    EXPECT_THAT(refusal({.name = name, .input_shape = {3, 32, 32}, .each_position = true, .columns = {1}}),
                HasSubstr("one a position"))
        << name;
  }
}

TEST(Registry, WeightsAreAFunctionOfTheSeed) {
  for (const char* name : {"mlp", "cnn", "resnet20"}) {
    const ModelOptions options{.name = name, .input_shape = {1, 28, 28}};
    const auto first = make_model(options, 5);
    torch::rand({17});  // whatever was drawn in between
    EXPECT_TRUE(same_weights(*first, *make_model(options, 5))) << name;
    EXPECT_FALSE(same_weights(*first, *make_model(options, 6))) << name;
  }
}

TEST(Registry, PassesItsOptionsOn) {
  const auto mlp = make_model({.name = "mlp", .input_shape = {6}, .classes = 2, .hidden = {{4, 3}}}, 1);
  EXPECT_EQ(mlp->named_parameters()["fc2.weight"].sizes(), (torch::IntArrayRef{3, 4}));
  EXPECT_EQ(mlp->forward(torch::randn({5, 6})).sizes(), (torch::IntArrayRef{5, 2}));
  const auto scalar =
      make_model({.name = "mlp", .input_shape = {}, .classes = 2, .hidden = std::vector<std::int64_t>{}}, 1);
  EXPECT_EQ(scalar->named_parameters()["fc1.weight"].sizes(), (torch::IntArrayRef{2, 1}));
  const auto cnn = make_model({.name = "cnn", .input_shape = {3, 8, 12}, .hidden = {{50}}}, 1);
  EXPECT_EQ(cnn->named_parameters()["fc1.bias"].sizes(), (torch::IntArrayRef{50}));
}

TEST(Registry, PassesTheOptionsOfBlocksAndSequencesOn) {
  const auto group = make_model(
      {.name = "resnet20", .input_shape = {3, 8, 8}, .activation = "leaky_relu", .norm = "group", .groups = 4}, 1);
  EXPECT_TRUE(group->buffers().empty());
  ModelOptions text{.name = "transformer", .input_shape = {9}, .classes = 30, .each_position = true, .vocabulary = 30};
  text.width = 24;
  text.depth = 3;
  text.heads = 6;
  auto parameters = make_model(text, 1)->named_parameters();
  EXPECT_EQ(parameters["h.2.attn.c_attn.weight"].sizes(), (torch::IntArrayRef{72, 24}));
  EXPECT_FALSE(parameters.contains("h.3.ln_1.weight"));
  text.heads = 5;
  EXPECT_THAT(refusal(text), HasSubstr("multiple of its 5 heads"));
  text.heads = {};
  text.name = "lstm";
  text.embedding = 10;
  parameters = make_model(text, 1)->named_parameters();
  EXPECT_EQ(parameters["rnn.weight_ih_l0"].sizes(), (torch::IntArrayRef{96, 10}));
  EXPECT_TRUE(parameters.contains("rnn.weight_ih_l2"));
}

TEST(Registry, RefusesWordsItDoesNotKnow) {
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {3}, .activation = "tanh"}), HasSubstr("relu and leaky_relu"));
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {1, 28, 28}, .norm = "layer"}), HasSubstr("batch and group"));
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {1, 28, 28}, .groups = 4}), HasSubstr("norm \"group\""));
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {1, 28, 28}, .norm = "group", .groups = 7}),
              HasSubstr("7 groups cannot share"));
}

TEST(Registry, DropoutIsPassedOn) {
  const auto changes = [](std::optional<double> dropout) {
    const auto net =
        make_model({.name = "mlp", .input_shape = {20}, .classes = 2, .hidden = {{64}}, .dropout = dropout}, 1);
    const auto x = torch::ones({1, 20});
    return !torch::equal(net->forward(x), net->forward(x));
  };
  EXPECT_FALSE(changes(std::nullopt));
  EXPECT_TRUE(changes(0.5));
}

TEST(Registry, NamesTheNearestModelAndAll) {
  const std::string reason = refusal({.name = "resnet8", .input_shape = {3, 32, 32}});
  EXPECT_THAT(reason, HasSubstr("\"resnet8\""));
  EXPECT_THAT(reason, HasSubstr("did you mean \"resnet18\"?"));
  EXPECT_THAT(reason, HasSubstr("mlp, cnn, resnet18, "));
}

TEST(Registry, SaysWhatInputAModelNeeds) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{}, {784}, {28, 28}, {1, 1, 28, 28}, {0, 28, 28}}) {
    EXPECT_THAT(refusal({.name = "cnn", .input_shape = shape}), HasSubstr("channels x height x width, at least 1x8x8"));
    EXPECT_THAT(refusal({.name = "resnet18", .input_shape = shape}), HasSubstr("channels x height x width"));
  }
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {1, 7, 28}}), HasSubstr("samples of 1x7x28"));
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {0}}), HasSubstr("samples of 0"));
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {INT64_MAX, 2}}), HasSubstr("cannot take"));
}

TEST(Registry, RefusesOptionsAModelDoesNotHave) {
  EXPECT_THAT(refusal({.name = "resnet20", .input_shape = {3, 32, 32}, .hidden = {{5}}}),
              HasSubstr("no option hidden"));
  EXPECT_THAT(refusal({.name = "resnet18", .input_shape = {3, 32, 32}, .dropout = 0.1}),
              HasSubstr("no option dropout"));
  for (const char* name : {"mlp", "cnn", "fbnet_c"})
    EXPECT_THAT(refusal({.name = name, .input_shape = {3, 32, 32}, .recompute = true}), HasSubstr("option recompute"));
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {3}, .norm = "batch"}), HasSubstr("no option norm"));
  EXPECT_THAT(refusal({.name = "resnet20", .input_shape = {3, 8, 8}, .width = 5}), HasSubstr("no option width"));
  EXPECT_THAT(refusal({.name = "resnet20", .input_shape = {3, 8, 8}, .heads = 5}), HasSubstr("no option heads"));
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {3, 32, 32}, .hidden = {{5, 5}}}), HasSubstr("one number"));
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {3}, .classes = 0}), HasSubstr("classes is 0"));
}

}  // namespace
}  // namespace muster::model
