// Norm and activation come before each convolution, so a block's input is also its shortcut; where the shape changes
// the shortcut is taken behind the first activation, as in the authors' code. A team divides the channels between a
// block's two convolutions, and those that come into its shortcut, which is summed together with the second one.
#include "muster/model/zoo/wide_resnet.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/block.h"
#include "muster/model/divisible.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kFirstWidth = 16;
constexpr std::int64_t kStages = 3;

class WideBlock final : public torch::nn::Module {
 public:
  WideBlock(const WideResNetOptions& options, std::int64_t inputs, std::int64_t outputs, std::int64_t stride)
      : bn1_(register_norm(*this, "bn1", options.layers, inputs)),
        conv1_(register_module("conv1", convolution(inputs, outputs, 3, stride))),
        bn2_(register_norm(*this, "bn2", options.layers, outputs)),
        conv2_(register_module("conv2", convolution(outputs, outputs, 3, 1))),
        inputs_(inputs),
        outputs_(outputs),
        dropout_(options.dropout),
        activation_(options.layers.activation) {
    if (stride != 1 || inputs != outputs)
      shortcut_ = register_module("shortcut", convolution(inputs, outputs, 1, stride));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor first = team_.enter(activate(bn1_(x), activation_));
    torch::Tensor out = activate(bn2_(conv1_(first), team_), activation_);
    if (dropout_ > 0) out = team_.dropout(out, dropout_, is_training(), 1, outputs_, bn2_.divides_by());
    out = conv2_(out);
    if (!shortcut_) return team_.sum(out) + x;
    const model::Share own = team_.share(inputs_);
    return team_.sum(out + shortcut_(team_.size() == 1 ? first : first.narrow(1, own.first, own.count)));
  }

  void join(const model::TensorTeam& team) { team_ = team; }
  std::vector<model::Split> splits(const std::string& name) const {
    const std::int64_t unit = bn2_.divides_by();
    std::vector<model::Split> all{{name + ".conv1.weight", 0, 1, unit}, {name + ".conv2.weight", 1, 1, unit}};
    for (const char* const part : {"weight", "bias", "running_mean", "running_var"})
      all.push_back({fmt::format("{}.bn2.{}", name, part), 0, 1, unit});
    if (shortcut_) all.push_back({name + ".shortcut.weight", 1});
    return all;
  }

 private:
  Norm bn1_;
  torch::nn::Conv2d conv1_;
  Norm bn2_;
  torch::nn::Conv2d conv2_;
  torch::nn::Conv2d shortcut_{nullptr};
  const std::int64_t inputs_;
  const std::int64_t outputs_;
  const double dropout_;
  const Activation activation_;
  model::TensorTeam team_;
};

class WideResNet final : public model::Net, public model::Divisible {
 public:
  explicit WideResNet(const WideResNetOptions& options)
      : conv1_(register_module("conv1", convolution(options.channels, kFirstWidth, 3, 1))),
        activation_(options.layers.activation),
        recompute_(options.recompute) {
    const std::int64_t blocks = (options.depth - 4) / 6;
    std::int64_t inputs = kFirstWidth;
    for (std::int64_t stage = 0; stage < kStages; ++stage) {
      const std::int64_t outputs = (kFirstWidth << stage) * options.factor;
      torch::nn::ModuleList list;
      for (std::int64_t i = 0; i < blocks; ++i) {
        blocks_.push_back(std::make_shared<WideBlock>(options, inputs, outputs, stage > 0 && i == 0 ? 2 : 1));
        list->push_back(blocks_.back());
        inputs = outputs;
      }
      register_module(fmt::format("layer{}", stage + 1), list);
    }
    bn1_ = register_norm(*this, "bn1", options.layers, inputs);
    fc_ = register_module("fc", torch::nn::Linear(inputs, options.classes));
    start_convolutions_as_he(*this, activation_);
    torch::nn::init::zeros_(fc_->bias);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = conv1_(x);
    for (const auto& block : blocks_)
      x = run(block, x);
    return score(x);
  }

  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all{{"conv1", {"conv1"}, [this](const torch::Tensor& x) { return conv1_(x); }, {}}};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::string name = block_name(i);
      all.push_back({name, {name}, [this, i](const torch::Tensor& x) { return run(blocks_[i], x); }, blocks_[i]});
    }
    all.push_back({"head", {"bn1", "fc"}, [this](const torch::Tensor& x) { return score(x); }, {}});
    return all;
  }

  std::vector<model::Split> splits() const override {
    std::vector<model::Split> all;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (model::Split& split : blocks_[i]->splits(block_name(i)))
        all.push_back(std::move(split));
    }
    return all;
  }
  void join(const model::TensorTeam& team) override {
    for (const auto& block : blocks_)
      block->join(team);
  }

 private:
  std::string block_name(std::size_t i) const {
    const std::size_t each = blocks_.size() / static_cast<std::size_t>(kStages);
    return fmt::format("layer{}.{}", i / each + 1, i % each);
  }
  torch::Tensor run(const std::shared_ptr<WideBlock>& block, const torch::Tensor& x) const {
    return model::run_block(
        block, [block](const torch::Tensor& in) { return block->forward(in); }, x, recompute_);
  }
  torch::Tensor score(const torch::Tensor& x) {
    return fc_(torch::adaptive_avg_pool2d(activate(bn1_(x), activation_), {1, 1}).flatten(1));
  }

  torch::nn::Conv2d conv1_;
  std::vector<std::shared_ptr<WideBlock>> blocks_;
  Norm bn1_;
  torch::nn::Linear fc_{nullptr};
  const Activation activation_;
  const bool recompute_;
};

}  // namespace

std::shared_ptr<model::Net> wide_resnet(const WideResNetOptions& options) {
  require_at_least("wide_resnet", "depth", options.depth, 10);
  require_at_least("wide_resnet", "factor", options.factor, 1);
  require_at_least("wide_resnet", "classes", options.classes, 1);
  require_at_least("wide_resnet", "channels", options.channels, 1);
  require_dropout("wide_resnet", options.dropout);
  if ((options.depth - 4) % 6 != 0) {
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("model wide_resnet: depth is {}; it must be 6n + 4, such as 10, 16, 22, 28 or 40", options.depth));
  }
  return std::make_shared<WideResNet>(options);
}

}  // namespace muster::zoo
