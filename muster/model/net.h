// A model of the zoo: a torch module from one batch to its scores, so that callers need not know which one it is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

namespace muster::model {

// A piece of a model: models that can be cut into stages are pieces one after the other, each from one tensor (first
// dimension samples) to the next.
struct Piece {
  std::string name{};                // "h.3"
  std::vector<std::string> holds{};  // names of the parameters and buffers that it uses, or of modules that hold them
  std::function<torch::Tensor(const torch::Tensor&)> forward{};
  // What it enters as a block (block.h); null: it draws no random numbers unless it is the first one.
  std::shared_ptr<torch::nn::Module> block{};
};

// Thread safety: as torch modules, one thread at a time.
class Net : public torch::nn::Module {
 public:
  // `x` is a batch, first dimension samples; the result has one row of class scores (logits) for each;
  // language models (zoo/transformer.h, zoo/recurrent.h) give one for each position of a sample.
  virtual torch::Tensor forward(torch::Tensor x) = 0;

  // The pieces whose forward, one after the other, is that of the model; none: it cannot be cut. Every parameter and
  // buffer belongs to one of them, tied weights to several. They hold pointers to this model.
  virtual std::vector<Piece> pieces() { return {}; }
};

}  // namespace muster::model
