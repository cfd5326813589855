// Shares are drawn by -log(-log(u)), kept away from 0 and 1; all else is sums.
// A lane's draws come from its own random numbers, so that who computes it does not matter.
#include "muster/model/zoo/super_net.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"

namespace muster::zoo {

BlockShares::BlockShares(const BlockNet& net) {
  const auto choices = choices_of(net);
  const std::vector<std::size_t> open = open_places(net);
  for (std::size_t i = 0; i < open.size(); ++i)
    logits_.push_back(register_parameter(fmt::format("place{}", net.places[open[i]].number),
                                         torch::zeros({static_cast<std::int64_t>(choices[i].size())})));
}

std::vector<torch::Tensor> BlockShares::draw(double temperature) const {
  std::vector<torch::Tensor> shares;
  for (const torch::Tensor& logits : logits_) {
    const torch::Tensor even = torch::rand_like(logits).clamp(1e-6, 1 - 1e-6);
    shares.push_back(torch::softmax((torch::log_softmax(logits, 0) - torch::log(-torch::log(even))) / temperature, 0));
  }
  return shares;
}

std::vector<std::vector<double>> BlockShares::probabilities() const {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<double>> all;
  for (const torch::Tensor& logits : logits_) {
    const torch::Tensor even = torch::softmax(logits.to(torch::kFloat64), 0).contiguous();
    all.emplace_back(even.data_ptr<double>(), even.data_ptr<double>() + even.numel());
  }
  return all;
}

std::vector<std::size_t> BlockShares::chosen() const {
  std::vector<std::size_t> choices;
  for (const std::vector<double>& place : probabilities())
    choices.push_back(static_cast<std::size_t>(std::max_element(place.begin(), place.end()) - place.begin()));
  return choices;
}

torch::Tensor expected_ms(const LatencyTable& table, const std::vector<torch::Tensor>& shares) {
  MUSTER_CHECK(shares.size() == table.choices_ms.size(), "shares of the table's net");
  torch::Tensor sum = torch::full({}, table.rest_ms, torch::kFloat32);
  for (std::size_t i = 0; i < shares.size(); ++i)
    sum = sum + torch::dot(shares[i], torch::tensor(table.choices_ms[i], torch::kFloat32));
  return sum;
}

SuperNet::SuperNet(const BlockNet& net, std::int64_t channels, std::int64_t classes, const LayerOptions& layers)
    : stem_(register_module(
          "stem", std::make_shared<ConvNorm>(convolution(channels, net.stem, 3, net.stem_stride), layers, true))) {
  std::int64_t inputs = net.stem;
  for (const BlockPlace& place : net.places) {
    Place& built = places_.emplace_back();
    built.open = !place.choice;
    const auto choices =
        place.choice ? std::vector<std::optional<BlockChoice>>{place.choice} : choices_at(place, inputs);
    const auto block = register_module(fmt::format("block{}", place.number), std::make_shared<torch::nn::Module>());
    for (const std::optional<BlockChoice>& choice : choices) {
      built.blocks.push_back(nullptr);
      if (!choice) continue;
      built.blocks.back() = block->register_module(
          to_string(*choice), std::make_shared<FbNetBlock>(*choice, inputs, place.channels, place.stride, layers));
    }
    inputs = place.channels;
  }
  head_ = register_module("head", std::make_shared<ConvNorm>(convolution(inputs, net.head, 1, 1), layers, true));
  fc_ = register_module("fc", torch::nn::Linear(net.head, classes));
  start_block_net(*this, fc_, layers);
}

torch::Tensor SuperNet::forward(const torch::Tensor& x, const std::vector<torch::Tensor>& shares) {
  torch::Tensor now = stem_->forward(x);
  std::size_t open = 0;
  for (const Place& place : places_) {
    if (!place.open) {
      now = place.blocks.front()->forward(now);
      continue;
    }
    MUSTER_CHECK(open < shares.size(), "shares for each open place");
    const torch::Tensor& share = shares[open++];
    torch::Tensor sum;
    for (std::size_t i = 0; i < place.blocks.size(); ++i) {
      const torch::Tensor out = place.blocks[i] ? place.blocks[i]->forward(now) : now;
      const torch::Tensor part = out * share[static_cast<std::int64_t>(i)];
      sum = sum.defined() ? sum + part : part;
    }
    now = sum;
  }
  return fc_(torch::adaptive_avg_pool2d(head_->forward(now), {1, 1}).flatten(1));
}

}  // namespace muster::zoo
