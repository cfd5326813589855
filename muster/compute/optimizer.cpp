// What the algorithms share: which one options mean, checks of options and spans, bias corrections. The algorithms
// themselves are one file each (sgd.cpp, adam.cpp, lars.cpp, lamb.cpp, own_optimizer.cpp).
#include "muster/compute/optimizer.h"

#include <cmath>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/compute/algorithms.h"
#include "muster/compute/power.h"

namespace muster::compute {
namespace {

// Calls the one of these that fits the alternative.
struct Maker {
  std::unique_ptr<const Optimizer> operator()(const Sgd& options) const { return make_sgd(options); }
  std::unique_ptr<const Optimizer> operator()(const Adam& options) const { return make_adam(options); }
  std::unique_ptr<const Optimizer> operator()(const AdamW& options) const { return make_adamw(options); }
  std::unique_ptr<const Optimizer> operator()(const Lars& options) const { return make_lars(options); }
  std::unique_ptr<const Optimizer> operator()(const Lamb& options) const { return make_lamb(options); }
  std::unique_ptr<const Optimizer> operator()(const OwnOptimizer& options) const { return make_own(options); }
};

}  // namespace

double base_lr(const OptimizerOptions& options) {
  return std::visit([](const auto& algorithm) { return algorithm.lr; }, options);
}

double weight_decay(const OptimizerOptions& options) {
  return std::visit([](const auto& algorithm) { return algorithm.weight_decay; }, options);
}

Norms Optimizer::norms(const BlockInput&, const TensorStep&) const {
  return {};
}

double Optimizer::trust_ratio(const Norms&, const TensorStep&) const {
  return 1;
}

std::unique_ptr<const Optimizer> make_optimizer(const OptimizerOptions& options) {
  return std::visit(Maker{}, options);
}

void require_option(bool condition, const char* algorithm, const char* option, double value, const char* allowed) {
  if (condition) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("{}: {} = {} is not {}", algorithm, option, value, allowed));
}

void require_not_negative(const char* algorithm, const char* option, double value) {
  require_option(std::isfinite(value) && value >= 0, algorithm, option, value, "a number of at least 0");
}

void require_below_one(const char* algorithm, const char* option, double value) {
  require_option(value >= 0 && value < 1, algorithm, option, value, "at least 0 and below 1");
}

void check_block(const BlockInput& input, const TensorStep& step, int slots) {
  MUSTER_CHECK(step.step >= 1, "steps of a tensor count from 1");
  MUSTER_CHECK(input.gradient.size() == input.parameters.size(), "a gradient of another length");
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(slots); ++slot) {
    MUSTER_CHECK(input.state[slot].size() == input.parameters.size(), "state of another length");
  }
}

void check_block(const BlockInput& input, const TensorStep& step, int slots, const BlockOutput& output) {
  check_block(input, step, slots);
  MUSTER_CHECK(output.parameters.size() == input.parameters.size(), "an output of another length");
  for (std::size_t slot = 0; slot < static_cast<std::size_t>(slots); ++slot) {
    MUSTER_CHECK(output.state[slot].size() == input.parameters.size(), "an output of another length");
  }
}

BiasCorrection::BiasCorrection(double beta1, double beta2, std::uint64_t step)
    : first(1 - whole_power(beta1, step)), second(1 - whole_power(beta2, step)) {
}

}  // namespace muster::compute
