// Which norm and activation a model has is chosen at run time, so both are values with a switch and not types: models
// of one depth are one class.
#include "muster/model/zoo/layers.h"

#include <numeric>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/tensor_team.h"

namespace muster::zoo {
namespace {

constexpr double kSlope = 0.01;
constexpr std::int64_t kMostGroups = 32;

std::int64_t groups_of(const LayerOptions& options, std::int64_t channels) {
  if (!options.groups) return std::gcd(std::gcd(kMostGroups, std::max<std::int64_t>(channels / 2, 1)), channels);
  if (*options.groups < 1 || channels % *options.groups != 0) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} groups cannot share the {} channels of a group norm", *options.groups, channels), {},
                "Choose a number that divides the channels of every layer, or leave it out.");
  }
  return *options.groups;
}

}  // namespace

torch::Tensor activate(torch::Tensor x, Activation activation) {
  return activation == Activation::kRelu ? x.relu_() : torch::leaky_relu_(x, kSlope);
}

void start_as_he(torch::Tensor& weight, Activation activation) {
  if (activation == Activation::kRelu)
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanOut, torch::kReLU);
  else
    torch::nn::init::kaiming_normal_(weight, kSlope, torch::kFanOut, torch::kLeakyReLU);
}

void start_convolutions_as_he(torch::nn::Module& module, Activation activation) {
  for (const auto& part : module.modules(/*include_self=*/false)) {
    if (auto* const convolution = part->as<torch::nn::Conv2d>()) start_as_he(convolution->weight, activation);
  }
}

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                              std::int64_t groups) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false));
}

Norm::Norm(const LayerOptions& options, std::int64_t channels) {
  if (options.norm == NormKind::kBatch)
    batch_ = model::SyncBatchNorm2d(channels);
  else
    group_ = torch::nn::GroupNorm(torch::nn::GroupNormOptions(groups_of(options, channels), channels));
}

std::shared_ptr<torch::nn::Module> Norm::module() const {
  if (batch_) return batch_.ptr();
  return group_.ptr();
}

torch::Tensor Norm::operator()(const torch::Tensor& x) {
  return batch_ ? batch_(x) : group_(x);
}

torch::Tensor Norm::operator()(const torch::Tensor& x, const model::TensorTeam& team) {
  if (batch_ || team.size() == 1) return (*this)(x);
  const model::Share groups = team.share(group_->options.num_groups());
  return torch::group_norm(x, groups.count, group_->weight, group_->bias, group_->options.eps());
}

std::int64_t Norm::divides_by() const {
  return batch_ ? 1 : group_->options.num_channels() / group_->options.num_groups();
}

}  // namespace muster::zoo
