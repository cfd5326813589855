// A depth is a row of a table: kind of block, numbers of blocks, stem and shortcut. Blocks, stages and the net are
// built from that row, and names follow torchvision so that its weights fit.
#include "muster/model/zoo/resnet.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/model/block.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

// A bottleneck block gives so many times the channels of its 3x3 convolution.
constexpr std::int64_t kExpansion = 4;

enum class Stem {
  kImageNet,  // 7x7 convolution of stride 2 and 3x3 max pooling of stride 2
  kCifar,     // 3x3 convolution
};

// How a block whose output has another shape than its input passes the input on.
enum class Shortcut {
  kProjection,  // 1x1 convolution and batch norm: the paper's option B
  kPadding,     // every second pixel, zeros for the new channels: option A
};

// What a block consists of.
enum class BlockKind {
  kBasic,       // two 3x3 convolutions
  kBottleneck,  // 1x1, 3x3 with a quarter of the channels, 1x1. The stride is the 3x3's, as torchvision has it
};

struct Architecture {
  int depth;
  Stem stem;
  Shortcut shortcut;
  BlockKind kind;
  std::int64_t width;                // of the first stage's 3x3 convolutions; each further stage doubles it
  std::vector<std::int64_t> blocks;  // of each stage
};

// A depth is one row.
const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> rows{
      {18, Stem::kImageNet, Shortcut::kProjection, BlockKind::kBasic, 64, {2, 2, 2, 2}},
      {34, Stem::kImageNet, Shortcut::kProjection, BlockKind::kBasic, 64, {3, 4, 6, 3}},
      {50, Stem::kImageNet, Shortcut::kProjection, BlockKind::kBottleneck, 64, {3, 4, 6, 3}},
      {101, Stem::kImageNet, Shortcut::kProjection, BlockKind::kBottleneck, 64, {3, 4, 23, 3}},
      {152, Stem::kImageNet, Shortcut::kProjection, BlockKind::kBottleneck, 64, {3, 8, 36, 3}},
      {20, Stem::kCifar, Shortcut::kPadding, BlockKind::kBasic, 16, {3, 3, 3}},
      {32, Stem::kCifar, Shortcut::kPadding, BlockKind::kBasic, 16, {5, 5, 5}},
      {44, Stem::kCifar, Shortcut::kPadding, BlockKind::kBasic, 16, {7, 7, 7}},
      {56, Stem::kCifar, Shortcut::kPadding, BlockKind::kBasic, 16, {9, 9, 9}},
      {110, Stem::kCifar, Shortcut::kPadding, BlockKind::kBasic, 16, {18, 18, 18}},
  };
  return rows;
}

const Architecture& architecture_of(int depth) {
  const auto& rows = architectures();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Architecture& a) { return a.depth == depth; });
  if (row != rows.end()) return *row;
  std::vector<std::string> depths;
  for (const Architecture& architecture : rows)
    depths.push_back(std::to_string(architecture.depth));
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("model resnet: there is no depth {}; available: {}", depth, join_words(depths)));
}

// Convolutions, each with its norm, and the shortcut around them. Activations are changed in place where backward does
// not need them: norms keep their input and not their output.
class Block final : public torch::nn::Module {
 public:
  // `width` is that of the 3x3 convolutions.
  Block(const Architecture& architecture, const LayerOptions& layers, std::int64_t inputs, std::int64_t width,
        std::int64_t outputs, std::int64_t stride)
      : layers_(layers), stride_(stride), new_channels_(outputs - inputs) {
    if (architecture.kind == BlockKind::kBasic) {
      add(inputs, outputs, 3, stride);
      add(outputs, outputs, 3, 1);
    } else {
      add(inputs, width, 1, 1);
      add(width, width, 3, stride);
      add(width, outputs, 1, 1);
    }
    if ((stride != 1 || inputs != outputs) && architecture.shortcut == Shortcut::kProjection) {
      // A list, for torchvision's names downsample.0 and downsample.1.
      projection_ = convolution(inputs, outputs, 1, stride);
      projection_norm_ = Norm(layers, outputs);
      torch::nn::ModuleList downsample;
      downsample->push_back(projection_.ptr());
      downsample->push_back(projection_norm_.module());
      register_module("downsample", downsample);
    }
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = norms_[0](convolutions_[0](x));
    for (std::size_t i = 1; i < convolutions_.size(); ++i)
      out = norms_[i](convolutions_[i](activate(out, layers_.activation)));
    out += shortcut(x);
    return activate(out, layers_.activation);
  }

 private:
  void add(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride) {
    const std::size_t number = convolutions_.size() + 1;
    convolutions_.push_back(
        register_module(fmt::format("conv{}", number), convolution(inputs, outputs, kernel, stride)));
    norms_.push_back(register_norm(*this, fmt::format("bn{}", number), layers_, outputs));
  }

  torch::Tensor shortcut(const torch::Tensor& x) {
    if (projection_) return projection_norm_(projection_(x));
    if (stride_ == 1 && new_channels_ == 0) return x;
    const torch::Tensor kept = x.slice(2, 0, c10::nullopt, stride_).slice(3, 0, c10::nullopt, stride_);
    return torch::constant_pad_nd(kept, {0, 0, 0, 0, 0, new_channels_});
  }

  const LayerOptions layers_;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<Norm> norms_;
  torch::nn::Conv2d projection_{nullptr};
  Norm projection_norm_;
  const std::int64_t stride_;
  const std::int64_t new_channels_;
};

// The blocks of one image size, named "0", "1", ...
class Stage final : public torch::nn::Module {
 public:
  Stage(const Architecture& architecture, const ResNetOptions& options, std::size_t number, std::int64_t inputs,
        std::int64_t outputs)
      : recompute_(options.recompute) {
    const std::int64_t width = (architecture.width << number) * options.width_factor;
    for (std::int64_t i = 0; i < architecture.blocks[number]; ++i) {
      const std::int64_t stride = i == 0 && number > 0 ? 2 : 1;
      blocks_.push_back(register_module(
          std::to_string(i),
          std::make_shared<Block>(architecture, options.layers, i == 0 ? inputs : outputs, width, outputs, stride)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (const auto& block : blocks_)
      x = run(block, x);
    return x;
  }

  // `name` is this stage's in the net.
  void add_pieces(const std::string& name, std::vector<model::Piece>& all) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::string block = fmt::format("{}.{}", name, i);
      all.push_back({block, {block}, [this, i](const torch::Tensor& x) { return run(blocks_[i], x); }, blocks_[i]});
    }
  }

 private:
  torch::Tensor run(const std::shared_ptr<Block>& block, const torch::Tensor& x) const {
    return model::run_block(
        block, [block](const torch::Tensor& in) { return block->forward(in); }, x, recompute_);
  }

  const bool recompute_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

class ResNet final : public model::Net {
 public:
  ResNet(const Architecture& architecture, const ResNetOptions& options)
      : stem_(architecture.stem),
        conv1_(register_module("conv1", stem_ == Stem::kImageNet
                                            ? convolution(options.channels, architecture.width, 7, 2)
                                            : convolution(options.channels, architecture.width, 3, 1))),
        bn1_(register_norm(*this, "bn1", options.layers, architecture.width)),
        activation_(options.layers.activation) {
    std::int64_t inputs = architecture.width;
    for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
      const std::int64_t outputs =
          (architecture.width << i) * (architecture.kind == BlockKind::kBottleneck ? kExpansion : 1);
      stages_.push_back(register_module(fmt::format("layer{}", i + 1),
                                        std::make_shared<Stage>(architecture, options, i, inputs, outputs)));
      inputs = outputs;
    }
    fc_ = register_module("fc", torch::nn::Linear(inputs, options.classes));
    // As torchvision and the paper; norms start at 1 and 0 and the linear layer as torch makes it, which is already so.
    start_convolutions_as_he(*this, activation_);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = begin(x);
    for (const auto& stage : stages_)
      x = stage->forward(x);
    return score(x);
  }

  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all{{"stem", {"conv1", "bn1"}, [this](const torch::Tensor& x) { return begin(x); }, {}}};
    for (std::size_t i = 0; i < stages_.size(); ++i)
      stages_[i]->add_pieces(fmt::format("layer{}", i + 1), all);
    all.push_back({"head", {"fc"}, [this](const torch::Tensor& x) { return score(x); }, {}});
    return all;
  }

 private:
  torch::Tensor begin(const torch::Tensor& x) {
    const torch::Tensor out = activate(bn1_(conv1_(x)), activation_);
    return stem_ == Stem::kImageNet ? torch::max_pool2d(out, 3, 2, 1) : out;
  }
  torch::Tensor score(const torch::Tensor& x) { return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1)); }

  const Stem stem_;
  torch::nn::Conv2d conv1_;
  Norm bn1_;
  const Activation activation_;
  std::vector<std::shared_ptr<Stage>> stages_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<model::Net> resnet(const ResNetOptions& options) {
  const Architecture& architecture = architecture_of(options.depth);
  require_at_least("resnet", "classes", options.classes, 1);
  require_at_least("resnet", "channels", options.channels, 1);
  require_at_least("resnet", "width_factor", options.width_factor, 1);
  if (options.width_factor > 1 && architecture.kind != BlockKind::kBottleneck) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("model resnet: depth {} has no bottleneck blocks to widen", options.depth));
  }
  return std::make_shared<ResNet>(architecture, options);
}

}  // namespace muster::zoo
