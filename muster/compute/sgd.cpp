// Stochastic gradient descent as torch::optim::SGD:
//   d = g + weight_decay * w;  b' = d in the first step, else momentum * b + (1 - dampening) * d
//   w' = w - lr * d without momentum, w - lr * b' with it, w - lr * (d + momentum * b') with nesterov
#include "muster/base/kernel.h"
#include "muster/compute/algorithms.h"

namespace muster::compute {
namespace {

enum class Momentum { kNone, kFirst, kKept };  // kFirst: there is no buffer yet, and it is not read

struct Constants {
  Momentum kind;
  bool nesterov;
  float scale;
  float decay;
  float momentum;
  float taken;  // 1 - dampening
  float lr;
};

template <Momentum kKind, bool kNesterov, bool kDecay>
struct Loop {
  Constants c;

  MUSTER_KERNEL_BODY void run(const float* __restrict w, const float* __restrict g, const float* __restrict b,
                              const float* __restrict /*unused*/, std::size_t count, float* __restrict w_out,
                              float* __restrict b_out, float* __restrict /*unused*/) const {
    for (std::size_t i = 0; i < count; ++i) {
      float d = c.scale * g[i];
      if constexpr (kDecay) d += c.decay * w[i];
      if constexpr (kKind != Momentum::kNone) {
        float buffer = d;
        if constexpr (kKind == Momentum::kKept) buffer = c.momentum * b[i] + c.taken * d;
        b_out[i] = buffer;
        d = kNesterov ? d + c.momentum * buffer : buffer;
      }
      w_out[i] = w[i] - c.lr * d;
    }
  }
};

template <bool kNesterov, bool kDecay>
MUSTER_KERNEL_BODY void choose_momentum(const Inputs& from, std::size_t count, const Constants& c, const Outputs& to,
                                        Stores stores) {
  switch (c.kind) {
    case Momentum::kNone:
      return cover<0>(Loop<Momentum::kNone, false, kDecay>{c}, from, count, to, stores);
    case Momentum::kFirst:
      return cover<1>(Loop<Momentum::kFirst, kNesterov, kDecay>{c}, from, count, to, stores);
    case Momentum::kKept:
      return cover<1>(Loop<Momentum::kKept, kNesterov, kDecay>{c}, from, count, to, stores);
  }
}

// Without weight decay the parameters stay out of the gradient: 0 times an infinity would be a NaN.
MUSTER_KERNEL void sgd_kernel(const Inputs& from, std::size_t count, const Constants& c, const Outputs& to,
                              Stores stores) {
  if (c.nesterov) {
    return c.decay != 0 ? choose_momentum<true, true>(from, count, c, to, stores)
                        : choose_momentum<true, false>(from, count, c, to, stores);
  }
  return c.decay != 0 ? choose_momentum<false, true>(from, count, c, to, stores)
                      : choose_momentum<false, false>(from, count, c, to, stores);
}

class SgdOptimizer final : public Optimizer {
 public:
  explicit SgdOptimizer(const Sgd& options) : options_(options) {
    if (options.momentum != 0) slot_names_.emplace_back("momentum_buffer");
  }

  const std::vector<std::string>& slot_names() const override { return slot_names_; }

  void update(const BlockInput& input, const TensorStep& step, double /*trust_ratio*/,
              const BlockOutput& output) const override {
    check_block(input, step, slots(), output);
    const Momentum kind = slots() == 0 ? Momentum::kNone : step.step == 1 ? Momentum::kFirst : Momentum::kKept;
    const Constants c{kind,
                      options_.nesterov,
                      input.gradient_scale,
                      static_cast<float>(step.weight_decay),
                      static_cast<float>(options_.momentum),
                      static_cast<float>(1 - options_.dampening),
                      static_cast<float>(step.lr)};
    sgd_kernel(inputs_of(input), input.parameters.size(), c, outputs_of(output), output.stores);
  }

 private:
  Sgd options_;
  std::vector<std::string> slot_names_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_sgd(const Sgd& options) {
  require_not_negative("sgd", "lr", options.lr);
  require_not_negative("sgd", "momentum", options.momentum);
  require_not_negative("sgd", "weight_decay", options.weight_decay);
  require_option(options.dampening >= 0 && options.dampening <= 1, "sgd", "dampening", options.dampening,
                 "a fraction from 0 to 1");
  if (options.nesterov) {
    require_option(options.momentum > 0, "sgd", "momentum", options.momentum, "above 0, as nesterov needs");
    require_option(options.dampening == 0, "sgd", "dampening", options.dampening, "0, as nesterov needs");
  }
  return std::make_unique<SgdOptimizer>(options);
}

}  // namespace muster::compute
