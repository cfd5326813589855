// One loop for each kind: the compiler makes vectors of it, and bits do not depend on who runs it. The names are those
// of the job file, which has checked them.
#include "muster/federated/server_optimizer.h"

#include <cmath>

#include "muster/base/check.h"

namespace muster::federated {

ServerOptimizer::Kind ServerOptimizer::kind_of(const std::string& name) {
  if (name == "average") return Kind::kAverage;
  if (name == "momentum") return Kind::kMomentum;
  if (name == "adagrad") return Kind::kAdagrad;
  if (name == "adam") return Kind::kAdam;
  MUSTER_CHECK(name == "yogi", "a server optimizer that the job file does not know");
  return Kind::kYogi;
}

ServerOptimizer::ServerOptimizer(const Options& options, std::size_t size)
    : kind_(kind_of(options.server)),
      lr_(static_cast<float>(options.server_lr)),
      beta_(static_cast<float>(options.server_momentum)),
      beta2_(static_cast<float>(options.server_beta2)),
      tau_(static_cast<float>(options.server_tau)) {
  if (kind_ != Kind::kAverage) momentum_.assign(size, 0.0F);
  if (kind_ != Kind::kAverage && kind_ != Kind::kMomentum) squares_.assign(size, tau_ * tau_);
}

void ServerOptimizer::apply(std::span<const float> change, std::span<float> model) {
  if (kind_ == Kind::kAverage) {
    for (std::size_t i = 0; i < model.size(); ++i)
      model[i] += lr_ * change[i];
    return;
  }
  if (kind_ == Kind::kMomentum) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      momentum_[i] = beta_ * momentum_[i] + change[i];
      model[i] += lr_ * momentum_[i];
    }
    return;
  }
  for (std::size_t i = 0; i < model.size(); ++i) {
    const float square = change[i] * change[i];
    float& v = squares_[i];
    if (kind_ == Kind::kAdagrad) v += square;
    if (kind_ == Kind::kAdam) v = beta2_ * v + (1 - beta2_) * square;
    if (kind_ == Kind::kYogi) v -= (1 - beta2_) * square * (v > square ? 1.0F : v < square ? -1.0F : 0.0F);
    momentum_[i] = beta_ * momentum_[i] + (1 - beta_) * change[i];
    model[i] += lr_ * momentum_[i] / (std::sqrt(v) + tau_);
  }
}

}  // namespace muster::federated
