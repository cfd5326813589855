// Optimizer state to torch's form and back; files of torch itself are in tests/multiprocess.
#include "muster/model/torch_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "pickle_assembler.h"

namespace muster::model {
namespace {

using ::testing::HasSubstr;

const std::vector<StateOwner> kOwners{{"fc.weight", {2}}, {"fc.bias", {}}};
const std::vector<std::string> kSgd{"momentum_buffer"};
const std::vector<std::string> kAdam{"exp_avg", "exp_avg_sq"};

class TorchOptimizer : public ::testing::Test {
 protected:
  std::filesystem::path write(const Bytes& bytes) {
    const auto path = folder_.path() / "o.pth";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  std::string refusal(const Bytes& bytes, std::span<const std::string> slots, ErrorKind kind) {
    try {
      read_torch_optimizer(write(bytes), kOwners, slots);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.message();
    }
    return {};
  }
  TemporaryFolder folder_{"muster-optimizer-test"};
};

std::map<std::string, std::vector<std::byte>> by_name(const std::vector<TensorView>& tensors) {
  std::map<std::string, std::vector<std::byte>> map;
  for (const TensorView& tensor : tensors)
    map[tensor.name] = {tensor.data.begin(), tensor.data.end()};
  return map;
}

template <typename T>
std::vector<std::byte> bytes_of_value(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// {"state": {0: {`name`: tensor of 2}}, "param_groups": [{"params": [...]}]}
Bytes state_of(const std::string& name, int parameters, int groups = 1) {
  Asm code;
  code.proto().dict().mark().text("state").dict().integer(0).dict().text(name).tensor("0", 2, 0, {2}, {1}).set_item();
  code.set_item().text("param_groups").op(']').mark();
  int number = 0;
  for (int group = 0; group < groups; ++group) {
    code.dict().text("params").op(']').mark();
    for (int i = 0; i < parameters / groups; ++i)
      code.integer(number++);
    code.op('e').set_item();
  }
  code.op('e').op('u');
  return pth_of(code.stop(), {{"0", floats({1, 2})}});
}

TEST_F(TorchOptimizer, StateComesBackAsItWasWritten) {
  const Bytes first = floats({1, 2});
  const Bytes second = floats({3, 4});
  const std::int64_t seven = 7;
  const std::int64_t never = 0;
  const Bytes zero = floats({0});
  const std::vector<TensorView> state{
      {"exp_avg/fc.weight", Dtype::kF32, {2}, first},
      {"exp_avg_sq/fc.weight", Dtype::kF32, {2}, second},
      {"updates/fc.weight", Dtype::kI64, {}, std::as_bytes(std::span(&seven, 1))},
      {"exp_avg/fc.bias", Dtype::kF32, {}, zero},
      {"exp_avg_sq/fc.bias", Dtype::kF32, {}, zero},
      {"updates/fc.bias", Dtype::kI64, {}, std::as_bytes(std::span(&never, 1))},
  };
  // In two groups and another order: names tell which is which.
  const std::vector<TorchGroup> groups{
      {{{"lr", 0.1}}, {"fc.bias"}}, {{{"lr", 0.2}, {"betas", std::pair(0.9, 0.99)}, {"foreach", {}}}, {"fc.weight"}}};
  const auto path = folder_.path() / "adam.pth";
  write_torch_optimizer(path, groups, state, "here");
  const OptimizerState loaded = read_torch_optimizer(path, kOwners, kAdam);
  EXPECT_EQ(by_name(loaded.tensors), by_name(state));
  EXPECT_THAT(loaded.notes, ::testing::Contains(HasSubstr("1 of 2 parameters have no state")));
}

TEST_F(TorchOptimizer, AMomentumWithoutACountIsOneUpdate) {
  const OptimizerState loaded = read_torch_optimizer(write(state_of("momentum_buffer", 2)), kOwners, kSgd);
  const auto tensors = by_name(loaded.tensors);
  EXPECT_EQ(tensors.at("momentum_buffer/fc.weight"), floats({1, 2}));
  EXPECT_EQ(tensors.at("updates/fc.weight"), bytes_of_value<std::int64_t>(1));
  EXPECT_EQ(tensors.at("momentum_buffer/fc.bias"), floats({0}));
  EXPECT_EQ(tensors.at("updates/fc.bias"), bytes_of_value<std::int64_t>(0));
}

TEST_F(TorchOptimizer, StateOfSomethingElseIsRefused) {
  EXPECT_THAT(refusal(state_of("momentum_buffer", 3), kSgd, ErrorKind::kMismatch), HasSubstr("3 parameters"));
  EXPECT_THAT(refusal(state_of("momentum_buffer", 2), kAdam, ErrorKind::kMismatch), HasSubstr("momentum_buffer"));
  EXPECT_THAT(refusal(state_of("max_exp_avg_sq", 2), kAdam, ErrorKind::kMismatch), HasSubstr("max_exp_avg_sq"));
  EXPECT_THAT(refusal(state_of("momentum_buffer", 2, 2), kSgd, ErrorKind::kUnsupported), HasSubstr("groups"));
  EXPECT_THAT(refusal(pth_of(Asm().proto().dict().stop(), {}), kSgd, ErrorKind::kInvalidInput), HasSubstr("no state"));
  const std::vector<StateOwner> larger{{"fc.weight", {3}}, {"fc.bias", {}}};
  EXPECT_THROW(read_torch_optimizer(write(state_of("momentum_buffer", 2)), larger, kSgd), Error);
}

}  // namespace
}  // namespace muster::model
