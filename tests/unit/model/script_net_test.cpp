// A script as a net, against the same script run by LibTorch alone; files that are not whole or not scripts are refused
// before LibTorch sees them.
#include "muster/model/script_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/export_script.h"
#include "muster/model/make_model.h"
#include "support/sandbox.h"
#include "support/scripts.h"

namespace muster::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::save_script_classifier;
using testing::script_module;
using testing::TemporaryFolder;

struct Refusal {
  ErrorKind kind = ErrorKind::kInterrupted;
  int exit_code = 0;
  std::string what = "loaded";
};

template <typename Load>
Refusal refusal_of(const Load& load) {
  try {
    load();
  } catch (const Error& error) {
    return {error.kind(), error.exit_code(), error.what()};
  }
  return {};
}

Refusal refusal(const std::filesystem::path& path) {
  return refusal_of([&] { load_script(path); });
}

TEST(ScriptNet, ShowsParametersAndBuffersUnderTheirNames) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  const auto net = load_script(folder / "net.ts");
  std::vector<std::string> parameters;
  for (const auto& item : net->named_parameters()) {
    parameters.push_back(item.key());
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
  }
  EXPECT_THAT(parameters,
              ElementsAre("first.weight", "first.bias", "norm.weight", "norm.bias", "second.weight", "second.bias"));
  std::vector<std::string> buffers;
  for (const auto& item : net->named_buffers())
    buffers.push_back(item.key());
  EXPECT_THAT(buffers, ElementsAre("norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

TEST(ScriptNet, ComputesAndDifferentiatesWhatTheScriptDoesWithoutMuster) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  const auto net = load_script(folder / "net.ts");
  torch::jit::Module plain = torch::jit::load((folder / "net.ts").string());
  const torch::Tensor x = torch::randn({5, 6});
  const torch::Tensor ours = net->forward(x);
  const torch::Tensor theirs = plain.forward({x}).toTensor();
  EXPECT_TRUE(torch::equal(ours, theirs));
  ours.square().mean().backward();
  theirs.square().mean().backward();
  const auto parameters = net->named_parameters();
  for (const auto& item : plain.named_parameters()) {
    ASSERT_TRUE(parameters[item.name].grad().defined()) << item.name;
    EXPECT_TRUE(torch::allclose(parameters[item.name].grad(), item.value.grad())) << item.name;
  }
}

TEST(ScriptNet, GivesTheSameBitsFromTheFirstRunOn) {
  // Operations that LibTorch's executor, left alone, computes by its own formulas after it has profiled some runs: such
  // a dropout draws other numbers.
  const TemporaryFolder folder;
  torch::manual_seed(1);
  torch::jit::Module script = testing::script_linear("Net", 6, 3);
  script.define(R"(
def pair(self, x: Tensor) -> Tensor:
    return torch.dropout(torch.tanh(torch.linear(x, self.weight, self.bias)) * torch.sigmoid(x.sum()), 0.5, True)
)");
  torch::jit::Module outer = script_module("Outer");
  outer.register_module("inner", script);
  outer.define("def forward(self, x: Tensor) -> Tensor:\n    return self.inner.pair(x)\n");
  outer.save((folder / "net.ts").string());
  const auto net = load_script(folder / "net.ts");
  const torch::Tensor x = torch::randn({32, 6});
  std::vector<torch::Tensor> results;
  for (int run = 0; run < 6; ++run) {
    torch::manual_seed(9);
    net->zero_grad();
    const torch::Tensor scores = net->forward(x);
    scores.square().mean().backward();
    results.push_back(torch::cat({scores.detach().flatten(), net->parameters()[0].grad().flatten()}));
    EXPECT_TRUE(torch::equal(results.back(), results.front())) << run;
  }
}

TEST(ScriptNet, PassesTheModeOn) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0.5);
  const auto net = load_script(folder / "net.ts");
  const torch::Tensor x = torch::randn({5, 6});
  net->eval();
  EXPECT_TRUE(torch::equal(net->forward(x), net->forward(x)));
  EXPECT_EQ(net->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 0);
  net->train();
  EXPECT_FALSE(torch::equal(net->forward(x), net->forward(x))) << "dropout";
}

TEST(ScriptNet, AFileThatWasSavedForEvaluationIsTrained) {
  const TemporaryFolder folder;
  torch::jit::Module script = testing::script_classifier(6, 3, 0.5);
  script.eval();
  script.save((folder / "net.ts").string());
  const auto net = load_script(folder / "net.ts");
  EXPECT_TRUE(net->is_training());
  net->forward(torch::randn({5, 6}));
  EXPECT_EQ(net->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 1);
}

TEST(ScriptNet, KeepsBuffersThatTheScriptReplaces) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  const auto net = load_script(folder / "net.ts");
  torch::Tensor count = net->named_buffers()["norm.num_batches_tracked"];
  net->forward(torch::randn({5, 6}));
  net->forward(torch::randn({5, 6}));
  EXPECT_EQ(count.item<std::int64_t>(), 2);
  count.fill_(40);  // and the script sees what others write into them
  net->forward(torch::randn({5, 6}));
  EXPECT_EQ(count.item<std::int64_t>(), 41);
}

TEST(ScriptNet, TiedWeightsAreTiedAgain) {
  const TemporaryFolder folder;
  torch::jit::Module script = script_module("Tied");
  const torch::Tensor weight = torch::randn({4, 4}).requires_grad_();
  script.register_parameter("encode", weight, false);
  script.register_parameter("decode", weight, false);
  script.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "    return torch.linear(torch.tanh(torch.linear(x, self.encode)), self.decode)\n");
  script.save((folder / "net.ts").string());
  const auto net = load_script(folder / "net.ts");
  const auto parameters = net->named_parameters();
  ASSERT_TRUE(parameters["encode"].is_same(parameters["decode"]));
  const torch::Tensor x = torch::randn({3, 4});
  net->forward(x).square().sum().backward();
  const torch::Tensor own = weight.detach().clone().requires_grad_();
  torch::linear(torch::tanh(torch::linear(x, own)), own).square().sum().backward();
  EXPECT_TRUE(torch::allclose(parameters["encode"].grad(), own.grad()));
}

TEST(ScriptNet, FrozenParametersStayFrozen) {
  const TemporaryFolder folder;
  torch::jit::Module script = testing::script_linear("Part", 6, 3);
  for (const auto& item : script.named_parameters()) {
    torch::Tensor parameter = item.value;
    if (item.name == "weight") parameter.requires_grad_(false);
  }
  script.save((folder / "net.ts").string());
  const auto parameters = load_script(folder / "net.ts")->named_parameters();
  EXPECT_FALSE(parameters["weight"].requires_grad());
  EXPECT_TRUE(parameters["bias"].requires_grad());
}

TEST(ScriptNet, FailuresOfTheScriptAreErrorsOfMuster) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  const auto net = load_script(folder / "net.ts");
  const Refusal wrong = refusal_of([&] { net->forward(torch::randn({5, 7})); });
  EXPECT_EQ(wrong.kind, ErrorKind::kCompute);
  EXPECT_THAT(wrong.what, AllOf(HasSubstr("net.ts"), HasSubstr("torch.linear")));
}

TEST(LoadScript, RefusesFilesThatAreNotThereOrNotWhole) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder / "none.ts").kind, ErrorKind::kNotFound);
  EXPECT_EQ(refusal(folder.path()).exit_code, 2);
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  const std::string whole = testing::slurp(folder / "net.ts");
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    testing::spill(folder / "cut.ts", whole.substr(0, length));
    const Refusal cut = refusal(folder / "cut.ts");
    EXPECT_EQ(cut.kind, ErrorKind::kDamaged) << length << ": " << cut.what;
    EXPECT_EQ(cut.exit_code, 2);
    EXPECT_THAT(cut.what, HasSubstr("cut.ts"));
  }
}

TEST(LoadScript, RefusesWhatIsNoTorchScript) {
  const TemporaryFolder folder;
  testing::spill(folder / "text.ts", std::string(4096, 'x'));
  EXPECT_THAT(refusal(folder / "text.ts").what, AllOf(HasSubstr("text.ts"), HasSubstr("torch.jit.script")));
  torch::save(torch::randn({3}), (folder / "tensor.pt").string());  // the same container, no module in it
  const Refusal tensor = refusal(folder / "tensor.pt");
  EXPECT_EQ(tensor.exit_code, 2);
}

// LibTorch would say "Unknown type name 'os.system'" or worse; here it does not get to see the file.
TEST(LoadScript, APickleWithANameOfItsOwnIsRefusedByTheRestrictedReader) {
  const TemporaryFolder folder;
  save_script_classifier(folder / "net.ts", 6, 3, 0);
  std::string file = testing::slurp(folder / "net.ts");
  // Class names stand in the pickle as text; with another one the checksum is wrong as well, which is found first.
  const std::size_t name = file.find("c__torch__");
  ASSERT_NE(name, std::string::npos);
  file.replace(name, 10, "cnotorch__");
  testing::spill(folder / "net.ts", file);
  const Refusal other = refusal(folder / "net.ts");
  EXPECT_EQ(other.kind, ErrorKind::kDamaged);
  EXPECT_THAT(other.what, AllOf(HasSubstr("net.ts"), HasSubstr("cannot be read as TorchScript")));
  EXPECT_THAT(other.what, ::testing::Not(HasSubstr("Exception raised")));
}

TEST(LoadScript, NamesAParameterThatIsNotFloat32) {
  const TemporaryFolder folder;
  for (const torch::ScalarType type : {torch::kFloat64, torch::kInt64, torch::kFloat16}) {
    torch::jit::Module inner = script_module("Inner");
    inner.register_parameter("weight", torch::ones({3, 6}).to(type), false);
    inner.define("def forward(self, x: Tensor) -> Tensor:\n    return x\n");
    torch::jit::Module script = script_module("Outer");
    script.register_module("inner", inner);
    script.define("def forward(self, x: Tensor) -> Tensor:\n    return self.inner.forward(x)\n");
    script.save((folder / "net.ts").string());
    const Refusal typed = refusal(folder / "net.ts");
    EXPECT_EQ(typed.kind, ErrorKind::kUnsupported);
    EXPECT_THAT(typed.what, AllOf(HasSubstr("inner.weight"), HasSubstr(c10::toString(type)), HasSubstr("float()")));
  }
}

TEST(LoadScript, RefusesScriptsThatCannotBeTrained) {
  const TemporaryFolder folder;
  const auto refusal_to = [&](const char* parameters, const char* body) {
    torch::jit::Module script = script_module("Net");
    if (*parameters != '\0') script.register_parameter(parameters, torch::ones({1}).requires_grad_(), false);
    script.define(body);
    script.save((folder / "net.ts").string());
    const Refusal result = refusal(folder / "net.ts");
    EXPECT_EQ(result.kind, ErrorKind::kUnsupported);
    return result.what;
  };
  EXPECT_THAT(refusal_to("", "def forward(self, x: Tensor) -> Tensor:\n    return x\n"), HasSubstr("no parameters"));
  EXPECT_THAT(refusal_to("w", "def other(self, x: Tensor) -> Tensor:\n    return x\n"), HasSubstr("no forward()"));
  EXPECT_THAT(refusal_to("w", "def forward(self, x: Tensor, y: Tensor) -> Tensor:\n    return x + y\n"),
              HasSubstr("takes 2 arguments"));
}

std::vector<std::string> doubts_of(const torch::jit::Module& script) {
  const TemporaryFolder folder;
  script.save((folder / "net.ts").string());
  return script_doubts(*load_script(folder / "net.ts"));
}

torch::jit::Module with_forward(const std::string& body) {
  torch::jit::Module net = script_module("Net");
  net.register_module("linear", testing::script_linear("Linear", 6, 3));
  net.register_buffer("mean", torch::zeros({3}));
  net.register_buffer("variance", torch::ones({3}));
  net.define("def forward(self, x: Tensor) -> Tensor:\n    y = self.linear.forward(x)\n" + body);
  return net;
}

// A trace is made in one mode, and these stay in it.
TEST(ScriptDoubts, DropoutAndBatchNormThatWereTracedAreNamed) {
  const TemporaryFolder folder;
  const auto net = make_model({.name = "cnn", .input_shape = {1, 8, 8}, .classes = 3}, 1);
  export_script(
      *net,
      [](std::int64_t samples) {
        return torch::randn({samples, 1, 8, 8});
      },
      folder / "net.ts");
  const std::vector<std::string> doubts = script_doubts(*load_script(folder / "net.ts"));
  ASSERT_EQ(doubts.size(), 2U) << ::testing::PrintToString(doubts);
  EXPECT_THAT(doubts[0], AllOf(HasSubstr("dropout"), HasSubstr("fixed to evaluation"), HasSubstr("drop"),
                               HasSubstr("torch.jit.script()")));
  EXPECT_THAT(doubts[1], AllOf(HasSubstr("batch norm"), HasSubstr("fixed to evaluation"), HasSubstr("never change")));
  EXPECT_THAT(script_doubts(*net), ::testing::IsEmpty()) << "no script";
}

TEST(ScriptDoubts, ModesThatAreFixedToTrainingAreNamed) {
  EXPECT_THAT(doubts_of(with_forward("    return torch.dropout(y, 0.5, True)\n")),
              ElementsAre(AllOf(HasSubstr("1 dropout is fixed to training"), HasSubstr("evaluated"))));
  EXPECT_THAT(doubts_of(with_forward(
                  "    return torch.batch_norm(y, None, None, self.mean, self.variance, True, 0.1, 1e-5, False)\n")),
              ElementsAre(AllOf(HasSubstr("1 batch norm is fixed to training"), HasSubstr("others of its batch"))));
}

TEST(ScriptDoubts, AScriptThatFollowsItsModeHasNone) {
  EXPECT_THAT(doubts_of(testing::script_classifier(6, 3, 0.5)), ::testing::IsEmpty());
  EXPECT_THAT(doubts_of(with_forward("    return torch.dropout(y, 0.5, self.training)\n")), ::testing::IsEmpty());
  EXPECT_THAT(doubts_of(with_forward("    return torch.dropout(y, 0.0, False)\n")), ::testing::IsEmpty())
      << "drops nothing in either mode";
  EXPECT_THAT(
      doubts_of(with_forward("    return torch.batch_norm(y, None, None, None, None, True, 0.1, 1e-5, False)\n")),
      ::testing::IsEmpty())
      << "without statistics there is one mode";
}

TEST(MakeModel, AScriptMustFitTheData) {
  const TemporaryFolder folder;
  const std::string path = (folder / "net.ts").string();
  save_script_classifier(path, 12, 3, 0);
  const auto net = make_model({.script = path, .input_shape = {3, 2, 2}, .classes = 3}, 1);
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(net->named_buffers()["norm.num_batches_tracked"].item<std::int64_t>(), 0) << "trying leaves no trace";
  const Refusal shape = refusal_of([&] { make_model({.script = path, .input_shape = {13}, .classes = 3}, 1); });
  EXPECT_EQ(shape.kind, ErrorKind::kMismatch);
  EXPECT_THAT(shape.what, HasSubstr("samples of 13"));
  const Refusal classes = refusal_of([&] { make_model({.script = path, .input_shape = {12}, .classes = 4}, 1); });
  EXPECT_EQ(classes.kind, ErrorKind::kMismatch);
  EXPECT_THAT(classes.what, HasSubstr("4 classes"));
  const Refusal wide = refusal_of([&] { make_model({.script = path, .input_shape = {12}, .classes = 2}, 1); });
  EXPECT_EQ(wide.kind, ErrorKind::kMismatch) << "scores of classes that are not there";
  EXPECT_THAT(wide.what, AllOf(HasSubstr("2x3"), HasSubstr("2 classes"), HasSubstr("last layer")));
  EXPECT_EQ(refusal_of([&] { make_model({.script = path, .input_shape = {12}, .dropout = 0.5}, 1); }).kind,
            ErrorKind::kInvalidInput);
}

}  // namespace
}  // namespace muster::model
