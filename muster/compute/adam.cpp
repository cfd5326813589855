// Adam and AdamW as torch::optim:
//   d = g + weight_decay * w (Adam), g (AdamW);  m' = beta1 * m + (1 - beta1) * d;  v' = beta2 * v + (1 -
//   beta2) * d * d w' = keep * w - lr / c1 * m' / (sqrt(v') / sqrt(c2) + eps) with the bias corrections c1
//   and c2; keep = 1 (Adam), 1 - lr * weight_decay (AdamW)
#include <cmath>

#include "muster/base/kernel.h"
#include "muster/compute/algorithms.h"

namespace muster::compute {
namespace {

struct Constants {
  float scale;
  float decay;  // into the gradient; 0 for AdamW
  float keep;   // of the parameters; 1 for Adam
  float beta1, rest1;
  float beta2, rest2;
  float root;  // 1 / sqrt(c2)
  float eps;
  float rate;  // lr / c1
};

template <bool kDecay>
struct Loop {
  Constants c;

  MUSTER_KERNEL_BODY void run(const float* __restrict w, const float* __restrict g, const float* __restrict m,
                              const float* __restrict v, std::size_t count, float* __restrict w_out,
                              float* __restrict m_out, float* __restrict v_out) const {
    for (std::size_t i = 0; i < count; ++i) {
      float d = c.scale * g[i];
      if constexpr (kDecay) d += c.decay * w[i];
      const float first = c.beta1 * m[i] + c.rest1 * d;
      const float second = c.beta2 * v[i] + c.rest2 * d * d;
      m_out[i] = first;
      v_out[i] = second;
      w_out[i] = c.keep * w[i] - c.rate * first / (std::sqrt(second) * c.root + c.eps);
    }
  }
};

// Without weight decay the parameters stay out of the gradient: 0 times an infinity would be a NaN.
MUSTER_KERNEL void adam_kernel(const Inputs& from, std::size_t count, const Constants& c, const Outputs& to,
                               Stores stores) {
  if (c.decay != 0) {
    cover<2>(Loop<true>{c}, from, count, to, stores);
  } else {
    cover<2>(Loop<false>{c}, from, count, to, stores);
  }
}

class AdamOptimizer final : public Optimizer {
 public:
  AdamOptimizer(const Adam& options, bool decoupled) : options_(options), decoupled_(decoupled) {}

  const std::vector<std::string>& slot_names() const override { return slot_names_; }

  void update(const BlockInput& input, const TensorStep& step, double /*trust_ratio*/,
              const BlockOutput& output) const override {
    check_block(input, step, slots(), output);
    const BiasCorrection correction(options_.beta1, options_.beta2, step.step);
    const Constants c{input.gradient_scale,
                      decoupled_ ? 0 : static_cast<float>(step.weight_decay),
                      decoupled_ ? static_cast<float>(1 - step.lr * step.weight_decay) : 1,
                      static_cast<float>(options_.beta1),
                      static_cast<float>(1 - options_.beta1),
                      static_cast<float>(options_.beta2),
                      static_cast<float>(1 - options_.beta2),
                      static_cast<float>(1 / std::sqrt(correction.second)),
                      static_cast<float>(options_.eps),
                      static_cast<float>(step.lr / correction.first)};
    adam_kernel(inputs_of(input), input.parameters.size(), c, outputs_of(output), output.stores);
  }

 private:
  Adam options_;
  bool decoupled_;
  std::vector<std::string> slot_names_{"exp_avg", "exp_avg_sq"};
};

void require_valid(const char* algorithm, const Adam& options) {
  require_not_negative(algorithm, "lr", options.lr);
  require_below_one(algorithm, "beta1", options.beta1);
  require_below_one(algorithm, "beta2", options.beta2);
  require_not_negative(algorithm, "eps", options.eps);
  require_not_negative(algorithm, "weight_decay", options.weight_decay);
}

}  // namespace

std::unique_ptr<const Optimizer> make_adam(const Adam& options) {
  require_valid("adam", options);
  return std::make_unique<AdamOptimizer>(options, false);
}

std::unique_ptr<const Optimizer> make_adamw(const AdamW& options) {
  const Adam common{options.lr, options.beta1, options.beta2, options.eps, options.weight_decay};
  require_valid("adamw", common);
  return std::make_unique<AdamOptimizer>(common, true);
}

}  // namespace muster::compute
