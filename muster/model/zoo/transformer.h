// A GPT-style language model (Radford et al., "Language models are unsupervised multitask learners", 2019): learned
// token and position embeddings, blocks of causal self-attention and a GELU perceptron with layer norm in front of each
// (pre-norm), a last layer norm, scores over the vocabulary.
//
// Parameters have GPT-2's names (wte, wpe, h.0.attn.c_attn, h.0.mlp.c_proj, ln_f) and its first weights: normal with
// deviation 0.02, 0.01 for positions, the projections back into the residual stream divided by sqrt(2 layers), biases
// 0. Weights of linear layers are outputs x inputs, as torch has them; GPT-2's own files have them transposed.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"

namespace muster::zoo {

struct TransformerOptions {
  std::int64_t layers = 4;
  std::int64_t width = 256;  // a multiple of heads
  std::int64_t heads = 4;
  std::int64_t context = 64;  // longest sequence
  std::int64_t vocabulary = 256;
  bool tied = true;    // the output layer is the token embedding; false: lm_head, of its own
  double dropout = 0;  // of embeddings, attention and residuals, in [0, 1)
};

// Takes token numbers, samples x positions, as integers or as the floats that data sets give; at most `context`
// positions. Gives scores samples x positions x vocabulary, position t from tokens 0 .. t alone. Throws kInvalidInput
// for options that make no network.
std::shared_ptr<model::Net> transformer(const TransformerOptions& options = {});

}  // namespace muster::zoo
