// LAMB (formula in optimizer.h): Adam's direction with decoupled weight decay, scaled per tensor by |w| /
// |r|.
//
// r is computed twice, for its norm and for the update: both read the same four arrays, and keeping r would
// cost a fifth array of memory traffic in each. Both go through direction(), so they see the same bits.
#include <algorithm>
#include <array>
#include <cmath>

#include "muster/base/kernel.h"
#include "muster/compute/algorithms.h"
#include "muster/compute/reduce.h"

namespace muster::compute {
namespace {

struct Constants {
  float scale;
  float beta1, rest1;
  float beta2, rest2;
  float unbias;  // 1 / c1
  float root;    // 1 / sqrt(c2)
  float eps;
  float decay;
  float rate;  // lr * trust ratio
};

struct Element {
  float first;
  float second;
  float direction;
};

MUSTER_KERNEL_BODY Element direction(float w, float g, float m, float v, const Constants& c) {
  const float d = c.scale * g;
  const float first = c.beta1 * m + c.rest1 * d;
  const float second = c.beta2 * v + c.rest2 * d * d;
  return {first, second, c.unbias * first / (std::sqrt(second) * c.root + c.eps) + c.decay * w};
}

struct Update {
  Constants c;

  MUSTER_KERNEL_BODY void run(const float* __restrict w, const float* __restrict g, const float* __restrict m,
                              const float* __restrict v, std::size_t count, float* __restrict w_out,
                              float* __restrict m_out, float* __restrict v_out) const {
    for (std::size_t i = 0; i < count; ++i) {
      const Element element = direction(w[i], g[i], m[i], v[i], c);
      m_out[i] = element.first;
      v_out[i] = element.second;
      w_out[i] = w[i] - c.rate * element.direction;
    }
  }
};

MUSTER_KERNEL void lamb_kernel(const Inputs& from, std::size_t count, const Constants& c, const Outputs& to,
                               Stores stores) {
  cover<2>(Update{c}, from, count, to, stores);
}

// Only r, into the first output.
struct Direction {
  Constants c;

  MUSTER_KERNEL_BODY void run(const float* __restrict w, const float* __restrict g, const float* __restrict m,
                              const float* __restrict v, std::size_t count, float* __restrict w_out,
                              float* __restrict /*unused*/, float* __restrict /*unused*/) const {
    for (std::size_t i = 0; i < count; ++i)
      w_out[i] = direction(w[i], g[i], m[i], v[i], c).direction;
  }
};

MUSTER_KERNEL void direction_kernel(const Inputs& from, std::size_t count, const Constants& c, float* r) {
  run(Direction{c}, from, count, Outputs{r, {}});
}

// Floats of r at a time: in the first cache level between the kernel that makes them and the one that squares them.
constexpr std::size_t kTileFloats = 1024;

class LambOptimizer final : public Optimizer {
 public:
  explicit LambOptimizer(const Lamb& options) : options_(options) {}

  const std::vector<std::string>& slot_names() const override { return slot_names_; }
  bool needs_norms() const override { return true; }

  Norms norms(const BlockInput& input, const TensorStep& step) const override {
    check_block(input, step, slots());
    const Constants c = constants(input, step, 0);
    Norms sums{examine(input.parameters).squares, 0};
    alignas(64) std::array<float, kTileFloats> tile;
    for (std::size_t begin = 0; begin < input.parameters.size(); begin += kTileFloats) {
      const std::size_t count = std::min(kTileFloats, input.parameters.size() - begin);
      direction_kernel(advance<2>(inputs_of(input), begin), count, c, tile.data());
      sums.update_squared += examine({tile.data(), count}).squares;
    }
    return sums;
  }

  double trust_ratio(const Norms& whole_tensor, const TensorStep& step) const override {
    const double parameters = std::sqrt(whole_tensor.parameters_squared);
    const double update = std::sqrt(whole_tensor.update_squared);
    return !step.adapt || parameters == 0 || update == 0 ? 1 : parameters / update;
  }

  void update(const BlockInput& input, const TensorStep& step, double trust_ratio,
              const BlockOutput& output) const override {
    check_block(input, step, slots(), output);
    const Constants c = constants(input, step, step.lr * trust_ratio);
    lamb_kernel(inputs_of(input), input.parameters.size(), c, outputs_of(output), output.stores);
  }

 private:
  Constants constants(const BlockInput& input, const TensorStep& step, double rate) const {
    const BiasCorrection correction(options_.beta1, options_.beta2, step.step);
    return {input.gradient_scale,
            static_cast<float>(options_.beta1),
            static_cast<float>(1 - options_.beta1),
            static_cast<float>(options_.beta2),
            static_cast<float>(1 - options_.beta2),
            static_cast<float>(1 / correction.first),
            static_cast<float>(1 / std::sqrt(correction.second)),
            static_cast<float>(options_.eps),
            static_cast<float>(step.weight_decay),
            static_cast<float>(rate)};
  }

  Lamb options_;
  std::vector<std::string> slot_names_{"exp_avg", "exp_avg_sq"};
};

}  // namespace

std::unique_ptr<const Optimizer> make_lamb(const Lamb& options) {
  require_not_negative("lamb", "lr", options.lr);
  require_below_one("lamb", "beta1", options.beta1);
  require_below_one("lamb", "beta2", options.beta2);
  require_not_negative("lamb", "eps", options.eps);
  require_not_negative("lamb", "weight_decay", options.weight_decay);
  return std::make_unique<LambOptimizer>(options);
}

}  // namespace muster::compute
