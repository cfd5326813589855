// A net with the weights of another computes the same; a file that does not fit leaves the net as it was.
#include "muster/model/initialize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/export_script.h"
#include "muster/model/make_model.h"
#include "muster/model/script_net.h"
#include "support/sandbox.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::shared_ptr<Net> net_of(const std::string& name, std::uint64_t seed, std::int64_t classes = 4) {
  ModelOptions options;
  options.name = name;
  options.input_shape = {3, 16, 16};
  options.classes = classes;
  return make_model(options, seed);
}

// The net's tensors as a file would give them.
Weights weights_of_net(const Net& net) {
  Weights weights;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      const torch::Tensor& tensor = item.value();
      const auto* const data = static_cast<const std::byte*>(tensor.data_ptr());
      weights.tensors.push_back({item.key(),
                                 tensor.scalar_type() == torch::kInt64 ? Dtype::kI64 : Dtype::kF32,
                                 tensor.sizes().vec(),
                                 {data, tensor.nbytes()}});
    }
  };
  add(net.named_parameters());
  add(net.named_buffers());
  return weights;
}

TEST(Initialize, ANetWithTheWeightsOfAnotherComputesTheSame) {
  const auto one = net_of("resnet20", 1);
  const auto other = net_of("resnet20", 2);
  one->forward(torch::randn({4, 3, 16, 16}));  // its statistics are no longer those of the start
  const InitReport report = initialize(*other, weights_of_net(*one), {}, "file");
  EXPECT_EQ(report.loaded.size(), init_targets(*one).size());
  one->eval();
  other->eval();
  const torch::Tensor batch = torch::randn({3, 3, 16, 16});
  EXPECT_TRUE(torch::equal(one->forward(batch), other->forward(batch)));
}

TEST(Initialize, ANetThatDoesNotFitIsLeftAsItWas) {
  const auto one = net_of("resnet20", 1);
  const auto other = net_of("resnet20", 2, 7);
  const torch::Tensor before = other->parameters()[0].detach().clone();
  try {
    initialize(*other, weights_of_net(*one), {}, "file");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.message(), HasSubstr("fc.weight (F32 [4, 64] in the file, F32 [7, 64] in the model)"));
    EXPECT_THAT(error.remedy(), HasSubstr("init_skip"));
  }
  EXPECT_TRUE(torch::equal(other->parameters()[0], before));
  const std::vector<std::string> skip{"fc.*"};
  EXPECT_EQ(initialize(*other, weights_of_net(*one), skip, "file").skipped.size(), 2U);
  EXPECT_TRUE(torch::equal(other->parameters()[0], one->parameters()[0]));
}

TEST(ExportScript, TheFileComputesWhatTheNetDoes) {
  const TemporaryFolder folder;
  const auto path = folder / "net.pt";
  const auto example = [](std::int64_t samples) { return torch::randn({samples, 3, 16, 16}); };
  for (const char* const name : {"resnet20", "cnn", "mlp"}) {
    const auto net = net_of(name, 1);
    export_script(*net, example, path);
    const auto script = load_script(path);
    script->eval();
    const torch::Tensor batch = example(6);
    EXPECT_TRUE(torch::allclose(script->forward(batch), net->forward(batch), 1e-5, 1e-6)) << name;
    // The weights are in it under their own names, and can be read without torch.
    const Weights weights = read_weights(path);
    EXPECT_EQ(weights.format, WeightsFormat::kTorchScript);
    EXPECT_EQ(weights.tensors.size(), init_targets(*net).size()) << name;
    EXPECT_TRUE(compare_weights(weights, init_targets(*net), {}).complete()) << name;
  }
}

// Decides by the size of the batch, which a trace cannot.
struct Fickle final : Net {
  Fickle() { fc = register_module("fc", torch::nn::Linear(2, 2)); }
  torch::Tensor forward(torch::Tensor x) override { return fc->forward(x) * static_cast<double>(x.size(0)); }
  torch::nn::Linear fc{nullptr};
};

TEST(ExportScript, ATraceThatIsNotTheNetIsRefused) {
  const TemporaryFolder folder;
  Fickle net;
  try {
    export_script(
        net,
        [](std::int64_t samples) {
          return torch::randn({samples, 2});
        },
        folder / "net.pt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "net.pt"));
}

}  // namespace
}  // namespace muster::model
