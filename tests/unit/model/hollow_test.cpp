// Models without values: what they take, and that their values are the usual ones when they are made where they stay.
#include "muster/model/hollow.h"

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/process_memory.h"
#include "muster/model/make_model.h"
#include "muster/model/profile.h"
#include "muster/model/safetensors.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMega = 1'000'000;

// Each with some tensors of more than 64 KiB, and some of less.
std::vector<ModelOptions> models_that_are_cut() {
  std::vector<ModelOptions> all;
  for (const char* name : {"mlp", "cnn", "resnet18", "resnet20", "wrn-10-2", "lstm", "gru", "transformer"}) {
    ModelOptions options = find_model(name).typical;
    if (options.input_shape.size() == 3) options.input_shape = {3, 32, 32};
    options.classes = options.vocabulary.value_or(7);
    all.push_back(options);
  }
  return all;
}

// Memory for each parameter by its name, each once.
class Places {
 public:
  explicit Places(const Net& net) {
    for (const auto& item : net.named_parameters())
      memory_.emplace(item.key(), AlignedBytes(item.value().nbytes(), "test"));
  }
  float* find(const std::string& name) { return reinterpret_cast<float*>(memory_.at(name).span().data()); }

 private:
  std::map<std::string, AlignedBytes> memory_;
};

TEST(HollowModel, HasTheUsualBitsWhereItIsMade) {
  for (const ModelOptions& options : models_that_are_cut()) {
    const auto make = [&] { return make_model(options, 3); };
    const std::shared_ptr<Net> usual = make();
    const HollowModel hollow(make);
    Places places(*usual);
    const std::shared_ptr<Net> made = hollow.make_at([&](const std::string& name) { return places.find(name); });
    std::size_t placed = 0;
    for (const auto& item : usual->named_parameters()) {
      const torch::Tensor& value = made->named_parameters()[item.key()];
      EXPECT_TRUE(torch::equal(value, item.value())) << options.name << ": " << item.key();
      placed += value.data_ptr() == places.find(item.key()) ? 1 : 0;
      EXPECT_EQ(hollow.net()->named_parameters()[item.key()].sizes(), item.value().sizes());
    }
    EXPECT_GT(placed, 0U) << options.name;
    for (const auto& item : usual->named_buffers())
      EXPECT_TRUE(torch::equal(made->named_buffers()[item.key()], item.value())) << options.name << ": " << item.key();
  }
}

TEST(HollowModel, TakesNoMemoryForItsParameters) {
  const auto make = [] {
    return make_model({.name = "mlp", .input_shape = {4096}, .classes = 10, .hidden = {{8192, 4096}}}, 1);
  };
  const std::uint64_t before = process_memory().anonymous_bytes;
  const HollowModel hollow(make);
  std::size_t bytes = 0;
  for (const torch::Tensor& parameter : hollow.net()->parameters())
    bytes += parameter.nbytes();
  EXPECT_GT(bytes, 250 * kMega);
  EXPECT_LT(process_memory().anonymous_bytes, before + 50 * kMega);
  EXPECT_EQ(hollow.net()->parameters()[0].sum().item<float>(), 0);
}

TEST(HollowTensors, LeaveThoseOfOtherThreadsAlone) {
  constexpr std::int64_t kMany = std::int64_t{4} << 20;
  const HollowTensors hollow;
  torch::Tensor ours = torch::arange(kMany);
  torch::Tensor theirs;
  std::thread([&] { theirs = torch::arange(kMany); }).join();
  EXPECT_EQ(theirs[kMany - 1].item<std::int64_t>(), kMany - 1);
  EXPECT_EQ(theirs[0].item<std::int64_t>(), 0);
  EXPECT_NE(ours[0].item<std::int64_t>(), 0) << "the last page written stands behind all of them";
}

TEST(HollowTensors, AreMeasuredAsWhatTheyStandFor) {
  for (const ModelOptions& options : models_that_are_cut()) {
    const ModelMemory usual = measure_model_memory(options, std::uint64_t{1} << 40);
    const ModelMemory hollow = measure_model_memory(options, std::uint64_t{1} << 40, true);
    EXPECT_EQ(hollow.parameter_bytes, usual.parameter_bytes) << options.name;
    EXPECT_EQ(hollow.step.of(8), usual.step.of(8)) << options.name;
    EXPECT_EQ(hollow.forward.of(8), usual.forward.of(8)) << options.name;
    EXPECT_THROW(measure_model_memory(options, usual.parameter_bytes, true), Error) << options.name;
  }
}

struct NetWithATable final : Net {
  NetWithATable() : table(torch::ones({256, 256})) { head = register_module("head", torch::nn::Linear(256, 2)); }
  torch::Tensor forward(torch::Tensor x) override { return head(torch::matmul(x, table)); }
  torch::Tensor table;
  torch::nn::Linear head{nullptr};
};

TEST(HollowModel, RefusesTensorsThatNobodyCouldFill) {
  try {
    const HollowModel hollow([] { return std::make_shared<NetWithATable>(); });
    FAIL() << "it was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("1 large tensors that are neither parameters nor buffers"));
  }
}

struct NetWithALargeBuffer final : Net {
  NetWithALargeBuffer() {
    head = register_module("head", torch::nn::Linear(256, 256));
    table = register_buffer("table", torch::ones({256, 256}));
  }
  torch::Tensor forward(torch::Tensor x) override { return head(torch::matmul(x, table)); }
  torch::Tensor table;
  torch::nn::Linear head{nullptr};
};

TEST(HollowModel, HasBuffersThatCanBeWritten) {
  const HollowModel hollow([] { return std::make_shared<NetWithALargeBuffer>(); });
  hollow.net()->named_buffers()["table"].fill_(2);
  EXPECT_EQ(hollow.net()->named_buffers()["table"].sum().item<float>(), 2 * 256 * 256);
  const auto made = hollow.make_at([](const std::string&) -> float* { return nullptr; });
  EXPECT_EQ(made->named_buffers()["table"].sum().item<float>(), 256 * 256);
}

}  // namespace
}  // namespace muster::model
