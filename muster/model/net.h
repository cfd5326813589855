// A model of the zoo: a torch module from one batch to its scores, so that callers need not know which one it is.
#pragma once

#include <torch/torch.h>

namespace muster::model {

// Thread safety: as torch modules, one thread at a time.
class Net : public torch::nn::Module {
 public:
  // `x` is a batch, first dimension samples; the result has one row of class scores (logits) for each;
  // language models (zoo/transformer.h, zoo/recurrent.h) give one for each position of a sample.
  virtual torch::Tensor forward(torch::Tensor x) = 0;
};

}  // namespace muster::model
