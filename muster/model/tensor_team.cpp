// One all-reduce each way for a pair of layers; for the loss two, of a few numbers a row. What autograd keeps of a
// divided layer is this member's part of it.
#include "muster/model/tensor_team.h"

#include <limits>
#include <span>
#include <utility>

#include "muster/base/check.h"
#include "muster/base/clock.h"
#include "muster/base/deadline.h"

namespace muster::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A team as a value that autograd can keep.
struct HeldTeam : torch::CustomClassHolder {
  explicit HeldTeam(TensorTeam held) : team(std::move(held)) {}
  TensorTeam team;
};

void keep(AutogradContext* context, const TensorTeam& team) {
  context->saved_data["team"] = torch::IValue::make_capsule(c10::make_intrusive<HeldTeam>(team));
}

TensorTeam kept(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<HeldTeam>(context->saved_data["team"].toCapsule())->team;
}

// In memory of its own, without gaps.
torch::Tensor summed(const TensorTeam& team, const torch::Tensor& x) {
  torch::Tensor all = x.is_contiguous() ? x.clone() : x.contiguous();
  team.all_reduce(all, comm::Reduction::kSum);
  return all;
}

struct Enter : torch::autograd::Function<Enter> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const TensorTeam& team) {
    keep(context, team);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {summed(kept(context), gradients[0]), torch::Tensor()};
  }
};

struct Sum : torch::autograd::Function<Sum> {
  static torch::Tensor forward(AutogradContext*, const torch::Tensor& x, const TensorTeam& team) {
    return summed(team, x);
  }
  static variable_list backward(AutogradContext*, variable_list gradients) { return {gradients[0], torch::Tensor()}; }
};

// x * weight^T, summed. The gradient of the weight, which is a view with gaps, comes out as autograd stores it: what
// torch's own linear gives would be copied once more.
struct SumProduct : torch::autograd::Function<SumProduct> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& x, const torch::Tensor& weight,
                               const TensorTeam& team) {
    context->save_for_backward({x, weight});
    context->saved_data["of_x"] = x.requires_grad();
    context->saved_data["of_weight"] = weight.requires_grad();
    torch::Tensor product = torch::matmul(x, weight.t()).contiguous();
    team.all_reduce(product, comm::Reduction::kSum);
    return product;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const torch::Tensor rows = saved[0].reshape({-1, saved[0].size(-1)});
    const torch::Tensor gradient = gradients[0].reshape({-1, gradients[0].size(-1)});
    torch::Tensor of_x;
    torch::Tensor of_weight;
    if (context->saved_data["of_x"].toBool()) of_x = gradient.mm(saved[1]).view(saved[0].sizes());
    if (context->saved_data["of_weight"].toBool()) of_weight = gradient.t().mm(rows);
    return {of_x, of_weight, torch::Tensor()};
  }
};

// With m the largest score of a row, e = exp(score - m), s = sum(e), p the target's score - m, all over all members:
// loss = log(s) - p; smoothed by a: log(s) - (1 - a) p - a mean(score - m). Its gradient is
// e / s - (1 - a) [class = target] - a / classes, over the number of rows.
struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& scores, const torch::Tensor& target,
                               const TensorTeam& team, std::int64_t classes, double smoothing) {
    const Share share = team.share(classes);
    torch::Tensor most = std::get<0>(scores.max(1)).contiguous();
    team.all_reduce(most, comm::Reduction::kMax);
    const torch::Tensor shifted = scores - most.unsqueeze(1);
    torch::Tensor powers = shifted.exp();
    const torch::Tensor place = target - share.first;
    const torch::Tensor is_here = place.ge(0).logical_and(place.lt(share.count));
    const torch::Tensor column = place.clamp(0, share.count - 1).unsqueeze(1);
    const torch::Tensor of_target = shifted.gather(1, column).squeeze(1) * is_here;
    torch::Tensor sums = torch::stack({powers.sum(1), of_target, shifted.sum(1)});
    team.all_reduce(sums, comm::Reduction::kSum);
    const double mean_part = smoothing / static_cast<double>(classes);
    const torch::Tensor losses = sums[0].log() - (1 - smoothing) * sums[1] - mean_part * sums[2];
    powers.div_(sums[0].unsqueeze(1));
    context->save_for_backward({powers, column, is_here});
    context->saved_data["smoothing"] = smoothing;
    context->saved_data["mean_part"] = mean_part;
    return losses.mean();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    torch::Tensor result = saved[0] - context->saved_data["mean_part"].toDouble();
    const torch::Tensor off = saved[2].to(torch::kFloat32) * (context->saved_data["smoothing"].toDouble() - 1);
    result.scatter_add_(1, saved[1], off.unsqueeze(1));
    result.mul_(gradients[0] / static_cast<double>(result.size(0)));
    return {result, {}, {}, {}, {}};
  }
};

}  // namespace

struct TensorTeam::State {
  comm::Group group;
  std::chrono::seconds timeout;
  Watch watch;
  double seconds = 0;

  template <typename Work>
  void exchange(const Work& work) {
    const auto start = system_clock().now();
    if (watch) watch(true);
    work(Deadline::after(timeout));
    if (watch) watch(false);
    seconds += std::chrono::duration<double>(system_clock().now() - start).count();
  }
};

TensorTeam::TensorTeam(comm::Group group, std::chrono::seconds timeout, Watch watch) {
  if (group.size() > 1) state_ = std::make_shared<State>(State{std::move(group), timeout, std::move(watch)});
}

std::size_t TensorTeam::member() const {
  return state_ ? static_cast<std::size_t>(state_->group.rank()) : 0;
}

std::size_t TensorTeam::size() const {
  return state_ ? static_cast<std::size_t>(state_->group.size()) : 1;
}

double TensorTeam::seconds() const {
  return state_ ? state_->seconds : 0;
}

void TensorTeam::all_reduce(torch::Tensor& data, comm::Reduction reduction) const {
  if (!state_) return;
  MUSTER_CHECK(data.is_contiguous(), "memory without gaps");
  const auto count = static_cast<std::size_t>(data.numel());
  state_->exchange([&](const Deadline& deadline) {
    if (data.scalar_type() == torch::kInt64)
      state_->group.all_reduce(std::span(data.data_ptr<std::int64_t>(), count), reduction, deadline);
    else
      state_->group.all_reduce(std::span(data.data_ptr<float>(), count), reduction, deadline);
  });
}

void TensorTeam::barrier() const {
  if (!state_) return;
  state_->exchange([&](const Deadline& deadline) { state_->group.barrier(deadline); });
}

torch::Tensor TensorTeam::enter(const torch::Tensor& x) const {
  return state_ ? Enter::apply(x, *this) : x;
}

torch::Tensor TensorTeam::sum(const torch::Tensor& x) const {
  return state_ ? Sum::apply(x, *this) : x;
}

torch::Tensor TensorTeam::sum_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                     const torch::Tensor& bias) const {
  if (!state_) return torch::nn::functional::linear(x, weight, bias);
  return SumProduct::apply(x, weight, *this).add_(bias);
}

torch::Tensor TensorTeam::embedding(const torch::Tensor& tokens, const torch::Tensor& weight,
                                    std::int64_t words) const {
  if (!state_) return torch::embedding(weight, tokens);
  const Share own = share(words);
  const torch::Tensor place = tokens - own.first;
  const torch::Tensor elsewhere = place.lt(0).logical_or(place.ge(own.count));
  const torch::Tensor found = torch::embedding(weight, place.masked_fill(elsewhere, 0));
  return sum(found.masked_fill(elsewhere.unsqueeze(-1), 0));
}

torch::Tensor TensorTeam::dropout(const torch::Tensor& x, double probability, bool training, std::int64_t dimension,
                                  std::int64_t size, std::int64_t unit) const {
  if (probability == 0 || !training) return x;
  if (!state_) return torch::dropout(x, probability, training);
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dimension)] = size;
  // As torch::dropout draws.
  torch::Tensor noise = torch::empty(sizes, x.options().requires_grad(false)).bernoulli_(1 - probability);
  const Share own = share(size, unit);
  return x * noise.narrow(dimension, own.first, own.count).contiguous().div_(1 - probability);
}

torch::Tensor TensorTeam::cross_entropy(const torch::Tensor& scores, const torch::Tensor& target, std::int64_t classes,
                                        double smoothing) const {
  if (!state_)
    return torch::nn::functional::cross_entropy(
        scores, target, torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
  return CrossEntropy::apply(scores, target, *this, classes, smoothing);
}

torch::Tensor TensorTeam::best_class(const torch::Tensor& scores, std::int64_t classes) const {
  if (!state_) return scores.argmax(1);
  const auto [most, place] = scores.max(1);
  torch::Tensor highest = most.contiguous().clone();
  all_reduce(highest, comm::Reduction::kMax);
  torch::Tensor best = (place + share(classes).first)
                           .masked_fill(most.ne(highest), std::numeric_limits<std::int64_t>::max())
                           .contiguous();
  all_reduce(best, comm::Reduction::kMin);
  return best;
}

}  // namespace muster::model
