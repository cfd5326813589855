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
  EXPECT_THAT(names, ElementsAre("mlp", "cnn", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnet20",
                                 "resnet32", "resnet44", "resnet56", "resnet110", "transformer"));
}

TEST(Registry, BuildsEveryModelItLists) {
  for (const ModelEntry& entry : models()) {
    if (entry.name == "transformer") continue;  // below
    const auto net = make_model({.name = entry.name, .input_shape = {3, 32, 32}, .classes = 7}, 1);
    EXPECT_TRUE(net->is_training());
    EXPECT_EQ(net->forward(torch::randn({2, 3, 32, 32})).sizes(), (torch::IntArrayRef{2, 7})) << entry.name;
  }
}

TEST(Registry, BuildsATransformerForTokensAndForNothingElse) {
  const auto net = make_model({.name = "transformer", .input_shape = {9}, .dropout = 0.1, .vocabulary = 30}, 1);
  EXPECT_EQ(net->forward(torch::zeros({2, 9})).sizes(), (torch::IntArrayRef{2, 9, 30}));
  EXPECT_THAT(refusal({.name = "transformer", .input_shape = {1, 28, 28}}),
              HasSubstr("needs text, as sequences of tokens; the data has samples of 1x28x28 numbers"));
  EXPECT_THAT(refusal({.name = "transformer", .input_shape = {9}}), HasSubstr("needs text"));
  EXPECT_THAT(refusal({.name = "transformer", .input_shape = {9}, .hidden = {{5}}, .vocabulary = 30}),
              HasSubstr("no option hidden"));
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
  const auto scalar = make_model({.name = "mlp", .input_shape = {}, .classes = 2, .hidden = {{}}}, 1);
  EXPECT_EQ(scalar->named_parameters()["fc1.weight"].sizes(), (torch::IntArrayRef{2, 1}));
  const auto cnn = make_model({.name = "cnn", .input_shape = {3, 8, 12}, .hidden = {{50}}}, 1);
  EXPECT_EQ(cnn->named_parameters()["fc1.bias"].sizes(), (torch::IntArrayRef{50}));
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
  EXPECT_THAT(refusal({.name = "cnn", .input_shape = {3, 32, 32}, .hidden = {{5, 5}}}), HasSubstr("one number"));
  EXPECT_THAT(refusal({.name = "mlp", .input_shape = {3}, .classes = 0}), HasSubstr("classes is 0"));
}

}  // namespace
}  // namespace muster::model
