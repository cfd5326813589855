// Worker's part for loops of one's own: parameters sent once, gradients averaged in one call for all of them. Whether a
// worker has a gradient travels as one float more, so that all make the same calls whatever each has.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
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

comm::View tensor_view(torch::Tensor& tensor) {
  using comm::ElementType;
  static const std::map<torch::ScalarType, ElementType> kTypes{
      {torch::kFloat32, ElementType::kFloat}, {torch::kFloat64, ElementType::kDouble},
      {torch::kFloat16, ElementType::kHalf},  {torch::kBFloat16, ElementType::kBfloat16},
      {torch::kInt32, ElementType::kInt32},   {torch::kInt64, ElementType::kInt64},
      {torch::kUInt8, ElementType::kUint8}};
  const auto type = kTypes.find(tensor.scalar_type());
  if (type == kTypes.end() || !tensor.device().is_cpu() || tensor.is_sparse())
    throw Error(ErrorKind::kUnsupported,
                fmt::format("a tensor of {} on {}{}", torch::toString(tensor.scalar_type()), tensor.device().str(),
                            tensor.is_sparse() ? ", sparse" : ""),
                {}, "Use a dense tensor of float, double, half, bfloat16, int32, int64 or uint8 on the CPU.");
  return {type->second, tensor.data_ptr(), static_cast<std::size_t>(tensor.numel())};
}

// `work` on memory without gaps, where the tensor is no such.
template <typename Work>
void in_place_of(torch::Tensor& tensor, const Work& work) {
  const torch::NoGradGuard no_grad;
  torch::Tensor dense = tensor.contiguous();
  work(tensor_view(dense));
  if (!dense.is_same(tensor)) tensor.copy_(dense);
}

void require_equal_parameters(comm::Group& group, const Deadline& deadline,
                              const std::vector<std::pair<std::string, torch::Tensor>>& parameters) {
  Sha256 hash;
  for (const auto& [name, parameter] : parameters) {
    torch::Tensor dense = parameter.contiguous();
    hash.update(std::as_bytes(bytes_of(dense)));
  }
  const std::string own = hash.finish();
  std::vector<std::uint8_t> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::span(reinterpret_cast<const std::uint8_t*>(own.data()), own.size()), std::span(all), deadline);
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto place = all.begin() + static_cast<std::ptrdiff_t>(own.size()) * rank;
    if (!std::equal(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()), place))
      throw Error(ErrorKind::kMismatch, fmt::format("the parameters of worker {} are not those of worker 0", rank), {},
                  "Call worker.broadcast_parameters(*net) before training, or seed all workers alike.");
  }
}

}  // namespace

struct Worker::Fusion {
  // Held weakly: the address of one that is gone is not given to another tensor.
  using Compared = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  // Whether all workers have compared their values of these at some time. The same on every worker, which all make the
  // same calls with the same modules.
  bool has_compared(const std::vector<std::pair<std::string, torch::Tensor>>& parameters) const {
    return std::ranges::all_of(
        parameters, [&](const auto& parameter) { return compared.contains(parameter.second.unsafeGetTensorImpl()); });
  }
  void note_compared(const std::vector<std::pair<std::string, torch::Tensor>>& parameters) {
    std::erase_if(compared, [](const auto& known) { return known.second.expired(); });
    for (const auto& [name, parameter] : parameters)
      compared.emplace(parameter.unsafeGetTensorImpl(), parameter.getIntrusivePtr());
  }

  comm::SharedArray array;
  std::map<const void*, Compared> compared{};
  // Of this turn, where workers say so; else all have a batch.
  std::int64_t with_batch = 0;  // workers that have one; 0: nobody said so
  bool has_batch = true;        // this worker
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
    group.broadcast(bytes_of(dense), 0, place_->deadline());
    if (!dense.is_same(tensor)) tensor.copy_(dense);
  }
}

bool Worker::uneven(bool has_batch) const {
  std::int64_t count = has_batch ? 1 : 0;
  group().all_reduce(std::span(&count, 1), comm::Reduction::kSum, place_->deadline());
  fusion_->with_batch = count;
  fusion_->has_batch = has_batch || count == 0;
  return count > 0;
}

void Worker::all_reduce(torch::Tensor& tensor, comm::Reduction reduction) const {
  in_place_of(tensor, [&](const comm::View& view) { group().all_reduce(view, reduction, place_->deadline()); });
}

void Worker::broadcast(torch::Tensor& tensor, int root) const {
  in_place_of(tensor, [&](const comm::View& view) { group().broadcast(view, root, place_->deadline()); });
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
  const Deadline deadline = place_->deadline();
  if (!fusion_->has_compared(parameters)) {
    require_equal_parameters(group, deadline, parameters);
    fusion_->note_compared(parameters);
  }
  if (fusion_->array.as<float>().size() < floats) fusion_->array = group.share(floats * sizeof(float), deadline);
  const std::span<float> fused = fusion_->array.as<float>().first(floats);
  float* place = fused.data();
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    // Without a batch a gradient is an old one, or the mean of a module before this one that shares the parameter.
    const torch::Tensor gradient = fusion_->has_batch ? parameter.grad() : torch::Tensor();
    torch::Tensor target = torch::from_blob(place, parameter.sizes());
    if (gradient.defined())
      target.copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    else
      target.zero_();
    place += parameter.numel();
    *place++ = gradient.defined() ? 1.0F : 0.0F;
  }
  group.all_reduce(fused, comm::Reduction::kAverage, deadline);
  if (fusion_->with_batch > 0 && fusion_->with_batch < group.size()) {
    for (float& value : fused)
      value *= static_cast<float>(group.size()) / static_cast<float>(fusion_->with_batch);
  }
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
