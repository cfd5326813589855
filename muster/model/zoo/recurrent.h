// LSTM (Hochreiter and Schmidhuber, 1997) and GRU (Cho et al., 2014) over sequences: a character model that gives
// scores for the next token at each position, or a classifier that gives one row a sample from the last position.
//
// Samples are tokens, which get an embedding, or positions of several numbers each (a time series). Parameters:
// embedding.weight, rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, ..., fc, with torch's names and gate order.
// First weights: input weights as Glorot and Bengio (2010), recurrent ones orthogonal gate by gate (Saxe et al., 2014),
// biases 0 but those of the LSTM's forget gate, which are 1 (Jozefowicz et al., 2015); embedding and fc as torch's.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/model/net.h"

namespace muster::zoo {

enum class Cell { kLstm, kGru };

struct RecurrentOptions {
  Cell cell = Cell::kLstm;
  std::int64_t vocabulary = 256;  // 0: positions of numbers
  std::int64_t features = 0;      // numbers of a position, where there is no vocabulary
  std::int64_t embedding = 64;    // width of a token
  std::int64_t width = 256;       // of the state
  std::int64_t depth = 2;         // layers
  std::int64_t classes = 256;
  bool each_position = true;
  double dropout = 0;  // behind each layer, not inside the recurrence (Zaremba et al., 2014); in [0, 1)
};

// Takes tokens, samples x positions, as integers or as the floats that data sets give, or numbers, samples x positions
// x features. Throws kInvalidInput for options that make no network.
std::shared_ptr<model::Net> recurrent(const RecurrentOptions& options = {});

}  // namespace muster::zoo
