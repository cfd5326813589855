// The published architectures as tables of choices, one for each of the search's 22 places; the blocks are built from
// them. A choice with kernel 0 leaves its place out.
#include "muster/model/zoo/fbnet.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kStemWidth = 16;
constexpr double kLinearDeviation = 0.01;

// A choice of the search: kernel of the depthwise convolution, channels inside by channels outside, groups of the 1x1
// convolutions. Kernel 0: nothing, the block is left out.
struct Choice {
  std::int64_t kernel;
  std::int64_t expansion;
  std::int64_t groups = 1;
};
constexpr Choice kSkip{0, 0};

// What all have in common: output channels and stride of the 22 blocks.
struct Place {
  std::int64_t channels;
  std::int64_t stride;
};
constexpr Place kPlaces[] = {{16, 1},  {24, 2},  {24, 1},  {24, 1},  {24, 1},  {32, 2},  {32, 1},  {32, 1},
                             {32, 1},  {64, 2},  {64, 1},  {64, 1},  {64, 1},  {112, 1}, {112, 1}, {112, 1},
                             {112, 1}, {184, 2}, {184, 1}, {184, 1}, {184, 1}, {352, 1}};

struct Architecture {
  char variant;
  std::int64_t head;            // channels of the last convolution
  std::vector<Choice> choices;  // one for each place
};

const Architecture* architecture_of(char variant) {
  static const std::vector<Architecture> rows{
      {'a', 1504, {kSkip,                                    //
                   {3, 3}, {3, 1},    kSkip,     kSkip,      //
                   {5, 6}, {3, 3},    {5, 1},    {3, 3},     //
                   {5, 6}, {5, 3},    {5, 1, 2}, {5, 6},     //
                   {3, 6}, {5, 1, 2}, {5, 3},    {3, 1, 2},  //
                   {5, 6}, {5, 6},    {5, 3},    {5, 6},     //
                   {5, 6}}},
      {'b', 1984, {{3, 1},                          //
                   {3, 6}, {5, 1}, {3, 1}, {3, 1},  //
                   {5, 6}, {5, 3}, {3, 6}, {5, 6},  //
                   {5, 6}, {5, 1}, kSkip,  {5, 3},  //
                   {5, 6}, {3, 1}, {5, 1}, {5, 3},  //
                   {5, 6}, {5, 1}, {5, 6}, {5, 6},  //
                   {3, 6}}},
      {'c', 1984, {{3, 1},                          //
                   {3, 6}, kSkip,  {3, 1}, {3, 1},  //
                   {5, 6}, {5, 3}, {5, 6}, {3, 6},  //
                   {5, 6}, {5, 3}, {5, 6}, {5, 6},  //
                   {5, 6}, {5, 6}, {5, 6}, {5, 3},  //
                   {5, 6}, {5, 6}, {5, 6}, {5, 6},  //
                   {3, 6}}},
  };
  for (const Architecture& row : rows) {
    if (row.variant == variant) return &row;
  }
  return nullptr;
}

// Convolution and norm, and an activation unless it is the last of a block.
class ConvNorm final : public torch::nn::Module {
 public:
  ConvNorm(const torch::nn::Conv2d& conv, const LayerOptions& layers, bool activated)
      : conv_(register_module("conv", conv)),
        bn_(register_norm(*this, "bn", layers, conv->options.out_channels())),
        activation_(activated ? std::optional(layers.activation) : std::nullopt) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor out = bn_(conv_(x));
    return activation_ ? activate(out, *activation_) : out;
  }

 private:
  torch::nn::Conv2d conv_;
  Norm bn_;
  const std::optional<Activation> activation_;
};

// Deals the channels of each group out to all groups, so that the next grouped convolution sees all of them.
torch::Tensor shuffled(const torch::Tensor& x, std::int64_t groups) {
  if (groups == 1) return x;
  return x.reshape({x.size(0), groups, x.size(1) / groups, x.size(2), x.size(3)}).transpose(1, 2).reshape(x.sizes());
}

class Block final : public torch::nn::Module {
 public:
  Block(const Choice& choice, const Place& place, std::int64_t inputs, const LayerOptions& layers)
      : groups_(choice.groups), residual_(place.stride == 1 && inputs == place.channels) {
    const std::int64_t inside = inputs * choice.expansion;
    expand_ = add("expand", convolution(inputs, inside, 1, 1, choice.groups), layers, true);
    depthwise_ = add("depthwise", convolution(inside, inside, choice.kernel, place.stride, inside), layers, true);
    project_ = add("project", convolution(inside, place.channels, 1, 1, choice.groups), layers, false);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor out = project_->forward(depthwise_->forward(shuffled(expand_->forward(x), groups_)));
    return residual_ ? out + x : out;
  }

 private:
  std::shared_ptr<ConvNorm> add(const std::string& name, const torch::nn::Conv2d& conv, const LayerOptions& layers,
                                bool activated) {
    return register_module(name, std::make_shared<ConvNorm>(conv, layers, activated));
  }

  const std::int64_t groups_;
  const bool residual_;
  std::shared_ptr<ConvNorm> expand_, depthwise_, project_;
};

class FbNet final : public model::Net {
 public:
  FbNet(const Architecture& architecture, const FbNetOptions& options)
      : stem_(register_module("stem", std::make_shared<ConvNorm>(convolution(options.channels, kStemWidth, 3, 2),
                                                                 options.layers, true))) {
    std::int64_t inputs = kStemWidth;
    for (std::size_t i = 0; i < architecture.choices.size(); ++i) {
      if (architecture.choices[i].kernel == 0) continue;
      blocks_.push_back(
          register_module(fmt::format("block{}", i + 1),
                          std::make_shared<Block>(architecture.choices[i], kPlaces[i], inputs, options.layers)));
      inputs = kPlaces[i].channels;
    }
    head_ = register_module(
        "head", std::make_shared<ConvNorm>(convolution(inputs, architecture.head, 1, 1), options.layers, true));
    fc_ = register_module("fc", torch::nn::Linear(architecture.head, options.classes));
    start_convolutions_as_he(*this, options.layers.activation);
    torch::nn::init::normal_(fc_->weight, 0, kLinearDeviation);
    torch::nn::init::zeros_(fc_->bias);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = stem_->forward(x);
    for (const auto& block : blocks_)
      x = block->forward(x);
    return fc_(torch::adaptive_avg_pool2d(head_->forward(x), {1, 1}).flatten(1));
  }

 private:
  std::shared_ptr<ConvNorm> stem_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<ConvNorm> head_;
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<model::Net> fbnet(const FbNetOptions& options) {
  const Architecture* const architecture = architecture_of(options.variant);
  if (architecture == nullptr) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("model fbnet: there is no variant '{}'; there are a, b and c", options.variant));
  }
  require_at_least("fbnet", "classes", options.classes, 1);
  require_at_least("fbnet", "channels", options.channels, 1);
  return std::make_shared<FbNet>(*architecture, options);
}

}  // namespace muster::zoo
