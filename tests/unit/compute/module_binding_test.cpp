// A module on flat memory against the same module of plain LibTorch.
#include "muster/compute/module_binding.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

struct Tied : torch::nn::Module {
  Tied() {
    weight = register_parameter("weight", torch::randn({3, 3}));
    register_parameter("again", weight);
    bias = register_parameter("bias", torch::zeros({3}));
    unused = register_parameter("unused", torch::ones({2}));
    count = register_buffer("count", torch::zeros({}, torch::kInt64));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::matmul(torch::matmul(x, weight), weight) + bias; }
  torch::Tensor weight, bias, unused, count;
};

struct Memory {
  explicit Memory(const ModuleBinding& binding)
      : versions{std::vector<float>(binding.layout().size()), std::vector<float>(binding.layout().size())},
        gradient(binding.layout().size(), 7.0F),
        present(binding.layout().tensors().size(), 9),
        buffers(binding.buffer_layout().bytes) {}
  LaneArea area() { return {gradient, present, buffers}; }
  std::array<std::vector<float>, 2> versions;
  std::vector<float> gradient;
  std::vector<std::uint8_t> present;
  std::vector<std::byte> buffers;
};

void attach(ModuleBinding& binding, Memory& memory) {
  binding.read_parameters(memory.versions[0]);
  memory.versions[1] = memory.versions[0];
  binding.attach({memory.versions[0], memory.versions[1]}, nullptr);
  binding.show(0);
}

std::size_t index_of(const ModuleBinding& binding, const std::string& name) {
  for (std::size_t i = 0; i < binding.layout().tensors().size(); ++i) {
    if (binding.layout().tensors()[i].name == name) return i;
  }
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

TEST(ModuleBinding, CountsTiedParametersOnce) {
  const ModuleBinding binding(std::make_shared<Tied>());
  EXPECT_EQ(binding.layout().parameter_count(), 9U + 3U + 2U);
}

TEST(ModuleBinding, TensorsAreAlignedViewsThatFollowTheShownVersion) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  const std::size_t bias = index_of(binding, "bias");
  const std::uint64_t at = binding.layout().tensors()[bias].offset;
  memory.versions[1][at] = 42.0F;
  EXPECT_EQ(module->bias[0].item<float>(), 0.0F);
  binding.show(1);
  EXPECT_EQ(module->bias[0].item<float>(), 42.0F);
  EXPECT_EQ(module->bias.data_ptr<float>(), memory.versions[1].data() + at);
  EXPECT_EQ(at % model::kAlignmentFloats, 0U);
}

TEST(ModuleBinding, CollectsTheGradientThatPlainLibTorchComputes) {
  torch::manual_seed(1);
  auto module = std::make_shared<Tied>();
  const torch::Tensor x = torch::randn({4, 3});
  module->forward(x).pow(2).mean().backward();
  const torch::Tensor expected = module->weight.grad().clone();
  const torch::Tensor expected_bias = module->bias.grad().clone();

  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  binding.begin_lane(memory.area());
  module->forward(x).pow(2).mean().backward();
  binding.collect();
  const auto& weight = binding.layout().tensors()[index_of(binding, "weight")];
  for (std::int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(memory.gradient[weight.offset + static_cast<std::uint64_t>(i)], expected.flatten()[i].item<float>());
  }
  const auto& bias = binding.layout().tensors()[index_of(binding, "bias")];
  EXPECT_EQ(memory.gradient[bias.offset + 1], expected_bias[1].item<float>());
  EXPECT_EQ(memory.present[index_of(binding, "weight")], 1);
  EXPECT_EQ(memory.present[index_of(binding, "unused")], 0);
  EXPECT_FALSE(module->weight.grad().defined()) << "the next lane starts from nothing";
}

// Two processes compute a part each of y = (x w) w + b: the last product and the bias, then the first product.
TEST(ModuleBinding, PartsOfAModelLeaveTheRestAlone) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  const torch::Tensor x = torch::randn({4, 3});
  const std::size_t weight = index_of(binding, "weight");
  const std::size_t bias = index_of(binding, "bias");
  const std::size_t unused = index_of(binding, "unused");
  const auto uses = [&](ModuleBinding::Use of_weight, ModuleBinding::Use of_bias) {
    ModuleBinding::Uses made{std::vector<ModuleBinding::Use>(3, ModuleBinding::Use::kNone), {0}};
    made.tensors[weight] = of_weight;
    made.tensors[bias] = of_bias;
    return made;
  };
  const torch::Tensor first = torch::matmul(x, module->weight);
  const torch::Tensor passed = first.detach().set_requires_grad(true);
  const torch::Tensor last = torch::matmul(passed, module->weight) + module->bias;

  binding.set_uses(uses(ModuleBinding::Use::kWhole, ModuleBinding::Use::kWhole));
  binding.begin_lane(memory.area());
  last.sum().backward();
  binding.collect();
  EXPECT_EQ(memory.present[bias], 1);
  EXPECT_EQ(memory.present[weight], 1);
  EXPECT_EQ(memory.present[unused], 9) << "of somebody else";
  const torch::Tensor half =
      torch::from_blob(memory.gradient.data() + binding.layout().tensors()[weight].offset, {3, 3}, torch::kFloat32)
          .clone();

  binding.set_uses(uses(ModuleBinding::Use::kRest, ModuleBinding::Use::kNone));
  binding.begin_lane(memory.area());
  first.backward(passed.grad());
  binding.collect();
  EXPECT_EQ(memory.present[unused], 9);
  EXPECT_TRUE(module->count.numel() == 1);
  std::vector<std::byte> untouched = memory.buffers;
  binding.read_used_buffers(memory.buffers);
  EXPECT_EQ(memory.buffers, untouched);

  const torch::Tensor reference = module->weight.detach().clone().set_requires_grad(true);
  (torch::matmul(torch::matmul(x, reference), reference) + module->bias.detach()).sum().backward();
  const torch::Tensor sum =
      torch::from_blob(memory.gradient.data() + binding.layout().tensors()[weight].offset, {3, 3}, torch::kFloat32);
  EXPECT_TRUE(torch::equal(sum, reference.grad()));
  EXPECT_FALSE(torch::equal(sum, half));
}

TEST(ModuleBinding, TwoBackwardsInALaneAddUp) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  binding.begin_lane(memory.area());
  const torch::Tensor x = torch::ones({1, 3});
  (module->forward(x).sum()).backward();
  (module->forward(x).sum() * 2).backward();
  binding.collect();
  EXPECT_EQ(memory.gradient[binding.layout().tensors()[index_of(binding, "bias")].offset], 3.0F);
}

TEST(ModuleBinding, TellsOfEachGradientOnceWhenItIsComplete) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  const torch::Tensor x = torch::ones({1, 3});
  binding.begin_lane(memory.area());
  module->forward(x).sum().backward();
  binding.collect();
  const std::vector<float> whole = memory.gradient;

  std::ranges::fill(memory.gradient, 7.0F);
  std::vector<std::size_t> told;
  binding.begin_lane(memory.area(), [&](std::size_t tensor) {
    told.push_back(tensor);
    const model::TensorSlot& slot = binding.layout().tensors()[tensor];
    EXPECT_EQ(memory.present[tensor], 1);
    for (std::uint64_t i = slot.offset; i < slot.offset + slot.count; ++i)
      EXPECT_EQ(memory.gradient[i], whole[i]) << slot.name;
    // From here on it belongs to whoever was told.
    std::fill_n(memory.gradient.begin() + static_cast<std::ptrdiff_t>(slot.offset), slot.count, 5.0F);
  });
  module->forward(x).sum().backward();
  binding.collect();
  std::ranges::sort(told);
  std::vector<std::size_t> expected{index_of(binding, "weight"), index_of(binding, "bias")};
  std::ranges::sort(expected);
  EXPECT_EQ(told, expected) << "the tied weight once, the unused one never";
  EXPECT_EQ(memory.present[index_of(binding, "unused")], 0);
  for (const std::size_t tensor : expected)
    EXPECT_EQ(memory.gradient[binding.layout().tensors()[tensor].offset], 5.0F) << "left alone at the end of the lane";
}

TEST(ModuleBinding, TakesGradientsThatAreNotContiguous) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  const torch::Tensor strange = torch::arange(9, torch::kFloat32).reshape({3, 3}).t();
  ASSERT_FALSE(strange.is_contiguous());
  binding.begin_lane(memory.area());
  module->weight.mutable_grad() = strange;
  binding.collect();
  const std::uint64_t at = binding.layout().tensors()[index_of(binding, "weight")].offset;
  EXPECT_EQ(memory.gradient[at + 1], 3.0F);
  EXPECT_EQ(memory.gradient[at + 3], 1.0F);
}

TEST(ModuleBinding, GradientsOfAGraphAreCopiedAtTheEnd) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  binding.begin_lane(memory.area());
  module->forward(torch::ones({1, 3})).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  binding.collect();
  EXPECT_EQ(memory.gradient[binding.layout().tensors()[index_of(binding, "bias")].offset], 1.0F);
}

TEST(ModuleBinding, NamesAParameterThatGotMoreAfterItWasReady) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  std::vector<std::size_t> told;
  binding.begin_lane(memory.area(), [&](std::size_t tensor) { told.push_back(tensor); });
  // What a recomputed block does inside the backward of the whole: one of its own.
  module->forward(torch::ones({1, 3})).sum().backward();
  module->weight.sum().backward();
  EXPECT_EQ(std::ranges::count(told, index_of(binding, "weight")), 1);
  try {
    binding.collect();
    FAIL() << "others have summed a part of the gradient";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
    EXPECT_NE(error.message().find("weight"), std::string::npos) << error.message();
  }
}

TEST(ModuleBinding, OutsideALaneBackwardIsLibTorchsOwn) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  binding.begin_lane(memory.area());
  binding.abandon_lane();
  module->forward(torch::ones({1, 3})).sum().backward();
  EXPECT_EQ(module->bias.grad()[0].item<float>(), 1.0F);
  EXPECT_EQ(memory.gradient[binding.layout().tensors()[index_of(binding, "bias")].offset], 7.0F) << "untouched";
}

TEST(ModuleBinding, NamesAParameterThatUserCodeMovedAway) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  binding.begin_lane(memory.area());
  module->bias.set_data(torch::zeros({3}));
  try {
    binding.collect();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCompute);
    EXPECT_NE(std::string(error.what()).find("bias"), std::string::npos);
  }
}

TEST(ModuleBinding, RefusesParametersOfOtherTypesByName) {
  struct Half : torch::nn::Module {
    Half() { register_parameter("half", torch::zeros({2}, torch::kFloat16)); }
  };
  try {
    const ModuleBinding binding(std::make_shared<Half>());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("half"), std::string::npos);
  }
}

TEST(ModuleBinding, BuffersGoOutAndComeBack) {
  auto module = std::make_shared<Tied>();
  ModuleBinding binding(module);
  module->count.fill_(17);
  std::vector<std::byte> bytes(binding.buffer_layout().bytes);
  binding.read_buffers(bytes);
  module->count.fill_(0);
  binding.write_buffers(bytes);
  EXPECT_EQ(module->count.item<std::int64_t>(), 17);
}

// Two layers of which a member has the second half of the hidden units.
struct Halves : torch::nn::Module {
  Halves() {
    rows = register_parameter("rows", torch::randn({4, 3}));
    columns = register_parameter("columns", torch::randn({2, 4}));
    bias = register_parameter("bias", torch::randn({2}));
    seen = register_buffer("seen", torch::arange(4, torch::kFloat32));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    seen.add_(1);
    return torch::matmul(torch::matmul(x, rows.t()), columns.t()) + bias;
  }
  torch::Tensor rows, columns, bias, seen;
};

TEST(ModuleBinding, ShardsAreViewsAndTheirGradientsLandInTheSamePartOfTheArea) {
  torch::manual_seed(1);
  auto module = std::make_shared<Halves>();
  const torch::Tensor x = torch::randn({5, 3});
  // What is not this member's half adds nothing to these gradients.
  torch::matmul(torch::matmul(x, module->rows.slice(0, 2).t()), module->columns.slice(1, 2).t())
      .pow(2)
      .sum()
      .backward();
  const torch::Tensor rows = module->rows.grad().clone();
  const torch::Tensor columns = module->columns.grad().clone();
  const torch::Tensor weights = module->columns.detach().clone();
  {
    const torch::NoGradGuard no_grad;
    module->bias.zero_();
  }
  ModuleBinding binding(module);
  Memory memory(binding);
  attach(binding, memory);
  const std::size_t of_rows = index_of(binding, "rows");
  const std::size_t of_columns = index_of(binding, "columns");
  const std::size_t of_bias = index_of(binding, "bias");
  ModuleBinding::Shards shards;
  shards.tensors.resize(3);
  shards.tensors[of_rows] = model::shard_of({"rows", 0}, std::vector<std::int64_t>{4, 3}, 1, 2);
  shards.tensors[of_columns] = model::shard_of({"columns", 1}, std::vector<std::int64_t>{2, 4}, 1, 2);
  shards.buffers.push_back(model::shard_of({"seen", 0}, std::vector<std::int64_t>{4}, 1, 2));
  binding.set_shards(shards);
  binding.read_buffers(memory.buffers);
  ModuleBinding::Uses uses{std::vector(3, ModuleBinding::Use::kWhole), {1}};
  uses.tensors[of_bias] = ModuleBinding::Use::kNone;  // another member leaves it
  binding.set_uses(uses);
  memory.present.assign(3, 0);

  binding.show_shards(true);
  binding.show(1);
  binding.show(0);
  EXPECT_EQ(module->rows.sizes().vec(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(torch::equal(module->columns, weights.slice(1, 2)));
  EXPECT_EQ(module->seen.sizes().vec(), (std::vector<std::int64_t>{2}));
  binding.begin_lane(memory.area());
  module->forward(x).pow(2).sum().backward();
  binding.collect();
  std::vector<std::byte> buffers(memory.buffers.size());
  binding.read_used_buffers(buffers);
  binding.show_shards(false);

  const auto in_area = [&](std::size_t tensor) {
    const model::TensorSlot& slot = binding.layout().tensors()[tensor];
    return torch::from_blob(memory.gradient.data() + slot.offset, slot.shape, torch::kFloat32);
  };
  EXPECT_TRUE(torch::allclose(in_area(of_rows).slice(0, 2), rows.slice(0, 2)));
  EXPECT_TRUE(torch::allclose(in_area(of_columns).slice(1, 2), columns.slice(1, 2)));
  EXPECT_TRUE(in_area(of_rows).slice(0, 0, 2).eq(7).all().item<bool>()) << "the other member's part is left alone";
  EXPECT_TRUE(in_area(of_columns).slice(1, 0, 2).eq(7).all().item<bool>());
  EXPECT_TRUE(in_area(of_bias).eq(7).all().item<bool>());
  EXPECT_EQ(memory.present[of_bias], 0);
  EXPECT_EQ(memory.present[of_rows], 1);
  EXPECT_EQ(memory.present[of_columns], 1);
  const auto* const statistics = reinterpret_cast<const float*>(buffers.data());
  EXPECT_EQ(std::vector<float>(statistics, statistics + 4), (std::vector<float>{0, 0, 3, 4}));
  EXPECT_TRUE(torch::equal(module->columns, weights));
  EXPECT_EQ(module->seen.sizes().vec(), (std::vector<std::int64_t>{4}));
}

TEST(ModuleBinding, TheModelOutlivesTheBinding) {
  auto module = std::make_shared<Tied>();
  {
    ModuleBinding binding(module);
    auto memory = std::make_shared<Memory>(binding);
    binding.read_parameters(memory->versions[0]);
    binding.attach({memory->versions[0], memory->versions[1]}, memory);
    binding.show(0);
  }
  EXPECT_EQ(module->unused.sum().item<float>(), 2.0F);  // the sanitizer sees memory that is gone
}

}  // namespace
}  // namespace muster::compute
