// Layers that the convolutional models share: activation and norm by choice, and their first weights.
//
// Whatever the norm, its parameters keep the name that batch norm has in the model (bn1.weight), as in torchvision,
// which exchanges norms the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "muster/model/sync_batch_norm.h"

namespace muster::model {
class TensorTeam;  // tensor_team.h
}

namespace muster::zoo {

enum class Activation {
  kRelu,
  kLeakyRelu,  // slope 0.01 below zero
};

enum class NormKind {
  kBatch,  // SyncBatchNorm2d
  kGroup,  // Wu and He, "Group normalization", ECCV 2018: no running statistics, the same for any batch
};

struct LayerOptions {
  Activation activation = Activation::kRelu;
  NormKind norm = NormKind::kBatch;
  // Of group norm. Empty: the largest power of two up to the paper's 32 that leaves a group at least two channels.
  std::optional<std::int64_t> groups = {};
};

// In place: the layers in front (batch and group norm, convolution, linear) do not need their output in backward.
torch::Tensor activate(torch::Tensor x, Activation activation);

// He et al., "Delving deep into rectifiers", ICCV 2015: normal, by fan-out, as torchvision's ResNets start.
void start_as_he(torch::Tensor& weight, Activation activation);
// The same for every convolution of `module`.
void start_convolutions_as_he(torch::nn::Module& module, Activation activation);

// Square kernel, padded so that only the stride changes the size; no bias, since a norm follows.
torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                              std::int64_t groups = 1);

// The norm of `channels` channels. A handle as torch's modules: register module() under the name it shall have.
class Norm {
 public:
  Norm() = default;
  // Throws kInvalidInput when `options.groups` does not divide `channels`.
  Norm(const LayerOptions& options, std::int64_t channels);

  std::shared_ptr<torch::nn::Module> module() const;
  torch::Tensor operator()(const torch::Tensor& x);
  // Of an x of which each member of `team` has its share of the channels, in units of divides_by(), as it has of the
  // norm's parameters and statistics.
  torch::Tensor operator()(const torch::Tensor& x, const model::TensorTeam& team);
  // Channels that belong together: a group's.
  std::int64_t divides_by() const;

 private:
  model::SyncBatchNorm2d batch_{nullptr};
  torch::nn::GroupNorm group_{nullptr};
};

// Registers a norm as child `name` of `parent`.
template <typename Parent>
Norm register_norm(Parent& parent, const std::string& name, const LayerOptions& options, std::int64_t channels) {
  Norm norm(options, channels);
  parent.register_module(name, norm.module());
  return norm;
}

}  // namespace muster::zoo
