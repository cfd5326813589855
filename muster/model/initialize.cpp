// The torch end of init_report.h: lists what the module has, asks for the report, and copies. Nothing is written to the
// module unless the report says that all of it fits.
#include "muster/model/initialize.h"

#include <cstring>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"

namespace muster::model {
namespace {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

std::optional<Dtype> dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat64:
      return Dtype::kF64;
    case torch::kInt64:
      return Dtype::kI64;
    case torch::kFloat32:
      return Dtype::kF32;
    case torch::kInt32:
      return Dtype::kI32;
    case torch::kFloat16:
      return Dtype::kF16;
    case torch::kBFloat16:
      return Dtype::kBf16;
    case torch::kInt16:
      return Dtype::kI16;
    case torch::kInt8:
      return Dtype::kI8;
    case torch::kUInt8:
      return Dtype::kU8;
    case torch::kBool:
      return Dtype::kBool;
    default:
      return std::nullopt;
  }
}

// In the order of registration, parameters before buffers; tied ones under their first name.
std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  std::set<const void*> seen;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      if (!item.value().defined() || !dtype_of(item.value())) continue;
      if (seen.insert(item.value().unsafeGetTensorImpl()).second) tensors.push_back({item.key(), item.value()});
    }
  };
  add(module.named_parameters());
  add(module.named_buffers());
  return tensors;
}

}  // namespace

std::vector<InitTarget> init_targets(const torch::nn::Module& module) {
  std::vector<InitTarget> targets;
  for (const NamedTensor& item : tensors_of(module))
    targets.push_back({item.name, item.tensor.sizes().vec(), *dtype_of(item.tensor)});
  return targets;
}

InitReport initialize(torch::nn::Module& module, const Weights& weights, std::span<const std::string> skip,
                      const std::string& where) {
  const std::vector<NamedTensor> tensors = tensors_of(module);
  InitReport report = compare_weights(weights, init_targets(module), skip);
  if (!report.complete()) {
    throw Error(ErrorKind::kMismatch, fmt::format("does not fit the model: {}", fmt::join(report.lines(), "; ")), where,
                "Name the tensors that are to be begun anew, a new last layer for example: "
                "model.init_skip = [\"fc.*\"].");
  }
  const torch::NoGradGuard no_grad;
  for (const InitReport::Pair& pair : report.loaded) {
    const TensorView& from = weights.tensors[pair.source];
    const torch::Tensor& to = tensors[pair.target].tensor;
    torch::Tensor values = torch::empty(to.sizes(), to.scalar_type());
    if (to.scalar_type() == torch::kFloat32) {
      copy_floats(from, {values.data_ptr<float>(), static_cast<std::size_t>(values.numel())});
    } else if (!from.data.empty()) {
      std::memcpy(values.data_ptr(), from.data.data(), from.data.size());
    }
    to.detach().copy_(values);
  }
  return report;
}

}  // namespace muster::model
