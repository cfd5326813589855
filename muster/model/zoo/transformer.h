// A GPT-style language model (Radford et al., "Language models are unsupervised multitask learners", 2019): learned
// token and position embeddings, blocks of causal self-attention and a GELU perceptron with layer norm in front of each
// (pre-norm), a last layer norm, scores over the vocabulary; or, as a classifier, scores from the last position alone.
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
  bool each_position = true;  // false: one row a sample, from its last position, by a layer "score"
  std::int64_t classes = 0;   // width of a row of scores; 0: the vocabulary
  bool tied = true;        // where rows are the vocabulary's: the output layer is the token embedding; false: lm_head
  double dropout = 0;      // of embeddings, attention and residuals, in [0, 1)
  bool recompute = false;  // blocks keep only their input for backward (recompute.h)
};

// Takes token numbers, samples x positions, as integers or as the floats that data sets give; at most `context`
// positions. Gives scores samples x positions x classes, position t from tokens 0 .. t alone, or samples x classes.
// Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> transformer(const TransformerOptions& options = {});

}  // namespace muster::zoo
