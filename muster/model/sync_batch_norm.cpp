// Sums over all workers in double precision, once in forward and once in backward, each a single all-reduce for all
// channels together. Everything else is torch's own batch norm with given statistics.
#include "muster/model/sync_batch_norm.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "muster/base/deadline.h"

namespace muster::model {
namespace {

namespace F = torch::nn::functional;

constexpr std::chrono::seconds kOthersTimeout{300};

// Sums over the samples and pixels of all workers, in doubles: the variance is a difference of large sums.
void sum_over(comm::Group& group, torch::Tensor& sums) {
  group.all_reduce(std::span(sums.data_ptr<double>(), static_cast<std::size_t>(sums.numel())), comm::Reduction::kSum,
                   Deadline::after(kOthersTimeout));
}

// A value for each channel, to be combined with batches of images.
torch::Tensor per_channel(const torch::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

struct Statistics {
  torch::Tensor mean;      // double, per channel
  torch::Tensor variance;  // double, per channel, of all values (not of a sample of them)
  double count = 0;        // values of a channel
};

Statistics measure(comm::Group& group, const torch::Tensor& input) {
  const torch::NoGradGuard no_grad;
  const std::int64_t channels = input.size(1);
  torch::Tensor sums = torch::zeros({2 * channels + 1}, torch::kFloat64);
  const double own = static_cast<double>(input.numel()) / static_cast<double>(channels);
  if (own > 0) {
    const auto [variance, mean] = torch::var_mean(input, {0, 2, 3}, /*unbiased=*/false);
    const torch::Tensor exact_mean = mean.to(torch::kFloat64);
    sums.narrow(0, 0, channels).copy_(exact_mean * own);
    sums.narrow(0, channels, channels).copy_((variance.to(torch::kFloat64) + exact_mean.square()) * own);
  }
  sums[2 * channels] = own;
  sum_over(group, sums);
  Statistics all;
  all.count = sums[2 * channels].item<double>();
  all.mean = sums.narrow(0, 0, channels) / all.count;
  all.variance = (sums.narrow(0, channels, channels) / all.count - all.mean.square()).clamp_min(0);
  return all;
}

// With x' = (x - mean) / sqrt(variance + eps), y = weight * x' + bias and g the gradient of y, over all N values of a
// channel of all workers:  dx = weight / sqrt(variance + eps) * (g - sum(g) / N - x' * sum(g * x') / N).
class SynchronizedNorm : public torch::autograd::Function<SynchronizedNorm> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight, const torch::Tensor& bias, const Statistics& statistics,
                               double eps, comm::Group group) {
    const torch::Tensor mean = statistics.mean.to(input.dtype());
    const torch::Tensor variance = statistics.variance.to(input.dtype());
    const torch::Tensor inverse = (statistics.variance + eps).rsqrt().to(input.dtype());
    // The output is not kept: it may be changed in place.
    context->save_for_backward({input, weight, mean, inverse});
    context->saved_data["count"] = statistics.count;
    context->saved_data["group"] = torch::IValue::make_capsule(c10::make_intrusive<HeldGroup>(std::move(group)));
    // With given statistics batch norm is one pass over the input, whatever its memory format.
    return torch::batch_norm(input, weight, bias, mean, variance, /*training=*/false, 0.0, eps, false);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const torch::Tensor& input = saved[0];
    const torch::Tensor& weight = saved[1];
    const torch::Tensor mean = per_channel(saved[2]);
    const torch::Tensor inverse = per_channel(saved[3]);
    const torch::Tensor& gradient = gradients[0];
    const std::int64_t channels = input.size(1);
    const torch::Tensor normal = (input - mean).mul_(inverse);
    const torch::Tensor own_gradient = gradient.sum({0, 2, 3});
    const torch::Tensor own_product = (gradient * normal).sum({0, 2, 3});
    torch::Tensor sums = torch::cat({own_gradient, own_product}).to(torch::kFloat64);
    const auto held = c10::static_intrusive_pointer_cast<HeldGroup>(context->saved_data["group"].toCapsule());
    sum_over(held->group, sums);
    sums /= context->saved_data["count"].toDouble();
    const torch::Tensor mean_gradient = per_channel(sums.narrow(0, 0, channels).to(input.dtype()));
    const torch::Tensor mean_product = per_channel(sums.narrow(0, channels, channels).to(input.dtype()));
    torch::Tensor result = gradient - mean_gradient - normal * mean_product;
    result *= inverse * per_channel(weight);
    return {result, own_product, own_gradient, {}, {}, {}};
  }

 private:
  // A group as a value that autograd can keep.
  struct HeldGroup : torch::CustomClassHolder {
    explicit HeldGroup(comm::Group held) : group(std::move(held)) {}
    comm::Group group;
  };
};

}  // namespace

SyncBatchNorm2dImpl::SyncBatchNorm2dImpl(const torch::nn::BatchNormOptions& options, comm::Group group)
    : NormImplBase(options), group_(std::move(group)) {
}

double SyncBatchNorm2dImpl::count_batch() {
  if (is_training() && options.track_running_stats()) {
    num_batches_tracked += 1;
    if (!options.momentum()) return 1.0 / num_batches_tracked.item<double>();
  }
  return options.momentum().value_or(0.0);
}

torch::Tensor SyncBatchNorm2dImpl::forward(const torch::Tensor& input) {
  _check_input_dim(input);
  const double factor = count_batch();
  if (!is_training() || !is_synchronized()) {
    return F::batch_norm(input, running_mean, running_var,
                         F::BatchNormFuncOptions()
                             .weight(weight)
                             .bias(bias)
                             .training(is_training() || !options.track_running_stats())
                             .momentum(factor)
                             .eps(options.eps()));
  }
  const Statistics statistics = measure(group_, input);
  if (options.track_running_stats()) {
    const torch::NoGradGuard no_grad;
    const double unbiased = statistics.count / std::max(statistics.count - 1, 1.0);
    running_mean.mul_(1 - factor).add_((statistics.mean * factor).to(running_mean.dtype()));
    running_var.mul_(1 - factor).add_((statistics.variance * (factor * unbiased)).to(running_var.dtype()));
  }
  // A function of autograd takes no undefined tensors; these cost little.
  const torch::Tensor scale = weight.defined() ? weight : torch::ones({input.size(1)});
  const torch::Tensor shift = bias.defined() ? bias : torch::zeros({input.size(1)});
  return SynchronizedNorm::apply(input, scale, shift, statistics, options.eps(), group_);
}

void SyncBatchNorm2dImpl::pretty_print(std::ostream& stream) const {
  stream << "muster::SyncBatchNorm2d(" << options.num_features() << ", workers=" << group_.size() << ")";
}

void SyncBatchNorm2dImpl::_check_input_dim(const torch::Tensor& input) {
  TORCH_CHECK(input.dim() == 4, "expected 4D input (got ", input.dim(), "D input)");
}

std::size_t synchronize_batch_norm(torch::nn::Module& module, const comm::Group& group) {
  std::size_t count = 0;
  for (const auto& part : module.modules()) {
    if (auto* const norm = part->as<SyncBatchNorm2d>()) {
      norm->synchronize(group);
      ++count;
    }
  }
  return count;
}

bool has_synchronized_batch_norm(const torch::nn::Module& module) {
  for (const auto& part : module.modules()) {
    const auto* const norm = part->as<SyncBatchNorm2d>();
    if (norm != nullptr && norm->is_synchronized()) return true;
  }
  return false;
}

}  // namespace muster::model
