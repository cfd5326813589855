// Worker's part for loops of one's own: parameters sent once, gradients averaged in one call for all of them. Whether a
// worker has a gradient travels as one float more, so that all make the same calls whatever each has.
#include <algorithm>
#include <set>
#include <vector>

#include <torch/torch.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/comm/element.h"
#include "muster/trainer/worker.h"
#include "muster/trainer/worker_place.h"

namespace muster::trainer {
namespace {

// Every parameter once: tied weights appear several times in parameters().
std::vector<std::pair<std::string, torch::Tensor>> own_parameters(torch::nn::Module& module) {
  std::vector<std::pair<std::string, torch::Tensor>> result;
  std::set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) result.emplace_back(item.key(), item.value());
  }
  return result;
}

std::span<std::uint8_t> bytes_of(torch::Tensor& tensor) {
  return {static_cast<std::uint8_t*>(tensor.data_ptr()), tensor.nbytes()};
}

void require_equal_parameters(comm::Group& group,
                              const std::vector<std::pair<std::string, torch::Tensor>>& parameters) {
  Sha256 hash;
  for (const auto& [name, parameter] : parameters) {
    torch::Tensor dense = parameter.contiguous();
    hash.update(std::as_bytes(bytes_of(dense)));
  }
  const std::string own = hash.finish();
  std::vector<std::uint8_t> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(own.data()), own.size()), std::span(all));
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto place = all.begin() + static_cast<std::ptrdiff_t>(own.size()) * rank;
    if (!std::equal(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()), place))
      throw Error(ErrorKind::kMismatch, fmt::format("the parameters of worker {} are not those of worker 0", rank), {},
                  "Call worker.broadcast_parameters(*net) before training, or seed all workers alike.");
  }
}

}  // namespace

struct Worker::Fusion {
  comm::SharedArray array;
  bool checked = false;  // that all workers start from the same parameters
};

Worker::Worker() : Worker(std::make_shared<WorkerPlace>(launch::World{}, comm::Group())) {
}

Worker::Worker(std::shared_ptr<WorkerPlace> place) : place_(std::move(place)), fusion_(std::make_shared<Fusion>()) {
}

int Worker::rank() const {
  return place_->rank();
}

int Worker::size() const {
  return place_->size();
}

bool Worker::is_first() const {
  return place_->is_first();
}

comm::Group Worker::group() const {
  return place_->group();
}

void Worker::broadcast_parameters(torch::nn::Module& module) const {
  const torch::NoGradGuard no_grad;
  comm::Group group = this->group();
  std::vector<std::pair<std::string, torch::Tensor>> tensors = own_parameters(module);
  for (const auto& item : module.named_buffers())
    tensors.emplace_back(item.key(), item.value());
  for (auto& [name, tensor] : tensors) {
    torch::Tensor dense = tensor.contiguous();
    group.broadcast(bytes_of(dense), 0);
    if (!dense.is_same(tensor)) tensor.copy_(dense);
  }
}

void Worker::all_reduce_gradients(torch::nn::Module& module) const {
  const torch::NoGradGuard no_grad;
  const auto parameters = own_parameters(module);
  std::size_t floats = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    if (parameter.dtype() != torch::kFloat32 || !parameter.device().is_cpu())
      throw Error(ErrorKind::kUnsupported, fmt::format("the gradient of {} is not float32 on the CPU", name), {},
                  "Only such can be averaged.");
    // One float more for each: how many workers have it.
    floats += static_cast<std::size_t>(parameter.numel()) + 1;
  }
  comm::Group group = this->group();
  if (!fusion_->checked) require_equal_parameters(group, parameters);
  fusion_->checked = true;
  if (fusion_->array.as<float>().size() < floats) fusion_->array = group.share(floats * sizeof(float));
  const std::span<float> fused = fusion_->array.as<float>().first(floats);
  float* place = fused.data();
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    const torch::Tensor gradient = parameter.grad();
    torch::Tensor target = torch::from_blob(place, parameter.sizes());
    if (gradient.defined())
      target.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    else
      target.zero_();
    place += parameter.numel();
    *place++ = gradient.defined() ? 1.0F : 0.0F;
  }
  group.all_reduce(fused, comm::Reduction::kAverage);
  place = fused.data();
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    const torch::Tensor mean = torch::from_blob(place, parameter.sizes());
    place += parameter.numel();
    if (*place++ == 0.0F) continue;
    torch::Tensor tensor = parameter;
    if (tensor.grad().defined() && !tensor.grad().is_sparse())
      tensor.mutable_grad().copy_(mean);
    else
      tensor.mutable_grad() = mean.clone();
  }
}

}  // namespace muster::trainer
