// Optimizers as kernels on flat spans: they read version k of parameters and state and write version k + 1 elsewhere.
//
// An update is elementwise, so blocks may be cut and shared out among workers anyhow without changing a bit.
// LARS and LAMB also need the norms of whole tensors: norms() of every block, combined in block order, then
// trust_ratio(), then update() of every block. Names, defaults and formulas are those of torch::optim where
// that has the algorithm; arithmetic is in single precision, with the constants of a step (bias corrections,
// rates) computed in double. Thread safety: an Optimizer is immutable and holds no state of the training;
// every call is a pure function of its spans.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace muster::compute {

// torch::optim::SGD. One slot, or none without momentum.
struct Sgd {
  double lr = 0.1;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// torch::optim::Adam: weight decay is added to the gradient.
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// torch::optim::AdamW: weight decay shrinks the parameters and stays out of the moments.
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

// You, Gitman, Ginsburg: "Large batch training of convolutional networks", 2017.
//   d = g + weight_decay * w;  ratio = trust * |w| / (|g| + weight_decay * |w| + eps);  v' = momentum * v +
//   lr * ratio * d w' = w - v', or with nesterov w - (lr * ratio * d + momentum * v')
struct Lars {
  double lr = 0.1;
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double trust = 1e-3;
  double eps = 1e-9;
  bool nesterov = false;
};

// You et al.: "Large batch optimization for deep learning: training BERT in 76 minutes", 2020.
//   r = m'^ / (sqrt(v'^) + eps) + weight_decay * w with Adam's bias-corrected moments;  w' = w - lr * |w| /
//   |r| * r
struct Lamb {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 1e-2;
};

constexpr std::size_t kMaxSlots = 2;

// What one step means for one tensor.
struct TensorStep {
  double lr = 0;            // after schedule and scaling
  double weight_decay = 0;  // 0 for exempt tensors
  bool adapt = true;        // false: the trust ratio of LARS and LAMB is 1, for exempt tensors
  std::uint64_t step = 1;   // updates of this tensor including this one, as torch counts; at least 1
};

struct BlockInput {
  std::span<const float> parameters;
  std::span<const float> gradient;
  std::array<std::span<const float>, kMaxSlots> state;  // the first slots(); zeros before the first step
  float gradient_scale = 1;                             // the coefficient of clipping
};

// How results are written. The bits are the same.
enum class Stores {
  kCached,    // for models that stay in the cache until the next forward pass
  kStreamed,  // past the caches, without reading the old lines first: faster for models that are larger than
              // the cache
};

struct BlockOutput {
  std::span<float> parameters;
  std::array<std::span<float>, kMaxSlots> state;
  Stores stores = Stores::kCached;
};

// An algorithm of the program's own, as a function of one block of a tensor. Tensors are cut into blocks and these are
// shared out among the workers, so the function goes element by element, or the result depends on where the cuts are.
// It is called from one thread of each worker, and must be the same function on all of them.
struct OwnOptimizer {
  std::string name = "own";  // compared among the workers: change it with what the function computes
  double lr = 1e-3;
  double weight_decay = 0;           // handed on in TensorStep
  std::vector<std::string> slots{};  // names of at most kMaxSlots arrays of state, which begin as zeros
  // Writes output.parameters and output.state[0 .. slots) from the input; the gradient still wants gradient_scale.
  std::function<void(const BlockInput& input, const TensorStep& step, const BlockOutput& output)> update{};
};

using OptimizerOptions = std::variant<Sgd, Adam, AdamW, Lars, Lamb, OwnOptimizer>;

double base_lr(const OptimizerOptions& options);
double weight_decay(const OptimizerOptions& options);

// Sums of squares that a trust ratio is made of.
struct Norms {
  double parameters_squared = 0;
  double update_squared = 0;  // LARS: of the gradient; LAMB: of r
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Arrays of state, each as long as the parameters, and what torch calls them ("momentum_buffer"; "exp_avg", ...).
  virtual const std::vector<std::string>& slot_names() const = 0;
  int slots() const { return static_cast<int>(slot_names().size()); }

  // Whether update() wants a trust ratio of the whole tensor. If not, norms() are 0 and the ratio is 1.
  virtual bool needs_norms() const { return false; }
  virtual Norms norms(const BlockInput& input, const TensorStep& step) const;
  // 1 when step.adapt is false, and when a norm is 0 (a tensor of zeros could never leave zero otherwise).
  virtual double trust_ratio(const Norms& whole_tensor, const TensorStep& step) const;

  // One pass. With Stores::kStreamed the results are ordered before every later store of this thread when it
  // returns. REQUIRES: all spans in use have the length of input.parameters; outputs overlap nothing else.
  virtual void update(const BlockInput& input, const TensorStep& step, double trust_ratio,
                      const BlockOutput& output) const = 0;
};

// Throws Error{kInvalidInput} that names the option when one is out of its range.
std::unique_ptr<const Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace muster::compute
