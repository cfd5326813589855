// The published architectures as tables of choices, one for each of the search's 22 places; the blocks are built from
// them. A choice with kernel 0 leaves its place out.
#include "muster/model/zoo/fbnet.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/zoo/block_words.h"
#include "muster/model/zoo/fbnet_block.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr std::int64_t kStemWidth = 16;

// Kernel 0: nothing, the block is left out.
constexpr BlockChoice kSkip{.kernel = 0};

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
  std::int64_t head;                 // channels of the last convolution
  std::vector<BlockChoice> choices;  // one for each place
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

class FbNet final : public model::Net {
 public:
  FbNet(const BlockNet& plan, std::int64_t channels, std::int64_t classes, const LayerOptions& layers)
      : stem_(register_module(
            "stem", std::make_shared<ConvNorm>(convolution(channels, plan.stem, 3, plan.stem_stride), layers, true))) {
    std::int64_t inputs = plan.stem;
    for (const BlockPlace& place : plan.places) {
      blocks_.push_back(
          register_module(fmt::format("block{}", place.number),
                          std::make_shared<FbNetBlock>(*place.choice, inputs, place.channels, place.stride, layers)));
      inputs = place.channels;
    }
    head_ = register_module("head", std::make_shared<ConvNorm>(convolution(inputs, plan.head, 1, 1), layers, true));
    fc_ = register_module("fc", torch::nn::Linear(plan.head, classes));
    start_block_net(*this, fc_, layers);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = stem_->forward(x);
    for (const auto& block : blocks_)
      x = block->forward(x);
    return fc_(torch::adaptive_avg_pool2d(head_->forward(x), {1, 1}).flatten(1));
  }

 private:
  std::shared_ptr<ConvNorm> stem_;
  std::vector<std::shared_ptr<FbNetBlock>> blocks_;
  std::shared_ptr<ConvNorm> head_;
  torch::nn::Linear fc_{nullptr};
};

// A published net as a plan: its blocks keep the numbers of the search's places.
BlockNet plan_of(const Architecture& architecture) {
  BlockNet plan{.stem = kStemWidth, .stem_stride = 2, .head = architecture.head};
  for (std::size_t i = 0; i < architecture.choices.size(); ++i) {
    if (architecture.choices[i].kernel == 0) continue;
    plan.places.push_back(
        {kPlaces[i].channels, kPlaces[i].stride, architecture.choices[i], static_cast<std::int64_t>(i) + 1});
  }
  return plan;
}

}  // namespace

std::shared_ptr<model::Net> fbnet(const FbNetOptions& options) {
  require_at_least("fbnet", "classes", options.classes, 1);
  require_at_least("fbnet", "channels", options.channels, 1);
  if (!options.blocks.empty()) {
    const BlockNet plan = parse_block_net(options.blocks);
    if (!open_places(plan).empty())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("model {}: {} of its places are open, so it stands for many nets", options.blocks,
                              open_places(plan).size()),
                  {}, "muster search JOB fills them in; or give each a kernel and an expansion, as 24k3e6.");
    return std::make_shared<FbNet>(plan, options.channels, options.classes, options.layers);
  }
  const Architecture* const architecture = architecture_of(options.variant);
  if (architecture == nullptr) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("model fbnet: there is no variant '{}'; there are a, b and c", options.variant));
  }
  return std::make_shared<FbNet>(plan_of(*architecture), options.channels, options.classes, options.layers);
}

}  // namespace muster::zoo
