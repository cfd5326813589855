// LARS (formula in optimizer.h): momentum SGD whose rate is scaled per tensor by |w| / |g|. The norms of whole tensors
// come from outside: a worker has only a slice, and blocks are combined in block order.
#include <cmath>

#include "muster/base/kernel.h"
#include "muster/compute/algorithms.h"
#include "muster/compute/reduce.h"

namespace muster::compute {
namespace {

struct Constants {
  bool nesterov;
  float scale;
  float decay;
  float momentum;
  float rate;  // lr * trust ratio
};

template <bool kNesterov>
struct Loop {
  Constants c;

  MUSTER_KERNEL_BODY void run(const float* __restrict w, const float* __restrict g, const float* __restrict v,
                              const float* __restrict /*unused*/, std::size_t count, float* __restrict w_out,
                              float* __restrict v_out, float* __restrict /*unused*/) const {
    for (std::size_t i = 0; i < count; ++i) {
      const float move = c.rate * (c.scale * g[i] + c.decay * w[i]);
      const float velocity = c.momentum * v[i] + move;
      v_out[i] = velocity;
      w_out[i] = w[i] - (kNesterov ? move + c.momentum * velocity : velocity);
    }
  }
};

MUSTER_KERNEL void lars_kernel(const Inputs& from, std::size_t count, const Constants& c, const Outputs& to,
                               Stores stores) {
  if (c.nesterov) {
    cover<1>(Loop<true>{c}, from, count, to, stores);
  } else {
    cover<1>(Loop<false>{c}, from, count, to, stores);
  }
}

class LarsOptimizer final : public Optimizer {
 public:
  explicit LarsOptimizer(const Lars& options) : options_(options) {}

  const std::vector<std::string>& slot_names() const override { return slot_names_; }
  bool needs_norms() const override { return true; }

  Norms norms(const BlockInput& input, const TensorStep& step) const override {
    check_block(input, step, slots());
    const double scale = input.gradient_scale;
    return {examine(input.parameters).squares, scale * scale * examine(input.gradient).squares};
  }

  double trust_ratio(const Norms& whole_tensor, const TensorStep& step) const override {
    const double parameters = std::sqrt(whole_tensor.parameters_squared);
    const double gradient = std::sqrt(whole_tensor.update_squared);
    if (!step.adapt || parameters == 0 || gradient == 0) return 1;
    return options_.trust * parameters / (gradient + step.weight_decay * parameters + options_.eps);
  }

  void update(const BlockInput& input, const TensorStep& step, double trust_ratio,
              const BlockOutput& output) const override {
    check_block(input, step, slots(), output);
    const Constants c{options_.nesterov, input.gradient_scale, static_cast<float>(step.weight_decay),
                      static_cast<float>(options_.momentum), static_cast<float>(step.lr * trust_ratio)};
    lars_kernel(inputs_of(input), input.parameters.size(), c, outputs_of(output), output.stores);
  }

 private:
  Lars options_;
  std::vector<std::string> slot_names_{"momentum_buffer"};
};

}  // namespace

std::unique_ptr<const Optimizer> make_lars(const Lars& options) {
  require_not_negative("lars", "lr", options.lr);
  require_not_negative("lars", "momentum", options.momentum);
  require_not_negative("lars", "weight_decay", options.weight_decay);
  require_not_negative("lars", "trust", options.trust);
  require_not_negative("lars", "eps", options.eps);
  return std::make_unique<LarsOptimizer>(options);
}

}  // namespace muster::compute
