// What a client does in a round, behind an interface: federated/ knows rounds, and trainer/ knows how a model is
// trained (trainer/client_training.h).
//
// A model is one flat array: its parameters, then its floating-point buffers (statistics of batch norm), which are
// averaged as the parameters are. Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/federated/noise.h"
#include "muster/federated/options.h"

namespace muster::federated {

struct LocalTask {
  std::uint64_t round = 0;
  std::uint64_t client = 0;
  std::vector<std::uint64_t> samples{};  // of the training set; one at least
  std::int64_t epochs = 1;
  double rate = 1;                         // of the job's learning rate
  double prox = 0;                         // pull back to the round's model (FedProx); 0: none
  std::span<const float> correction = {};  // added to every gradient (SCAFFOLD: c - c_i); empty: nothing
  SamplePrivacy privacy{};                 // DP-SGD; `key` decides who is in a step, and the noise
  NoiseKey key{};
};

struct LocalResult {
  std::uint64_t steps = 0;
  double lr = 0;    // of its steps
  double loss = 0;  // mean over the samples of its last epoch; 0 with DP-SGD: nothing would protect it
};

// Figures of a model on the test set.
struct Figures {
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics{};  // the task's first one first
  std::uint64_t samples = 0;
};

// Where a tensor of the model stands in the flat array, in floats.
struct TensorPlace {
  std::string name{};
  std::vector<std::int64_t> shape{};
  std::uint64_t offset = 0;
};

// How many numbers of the model are trained: of the tensors within `parameters`.
inline std::uint64_t trained_numbers(std::span<const TensorPlace> tensors, std::size_t parameters) {
  std::uint64_t count = 0;
  for (const TensorPlace& tensor : tensors) {
    if (tensor.offset >= parameters) continue;
    count += static_cast<std::uint64_t>(
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>()));
  }
  return count;
}

class LocalTraining {
 public:
  virtual ~LocalTraining() = default;

  // Numbers of the whole model, and how many of them are parameters: these come first.
  virtual std::size_t size() const = 0;
  virtual std::size_t parameters() const = 0;
  // Samples of a step.
  virtual std::uint64_t batch() const = 0;
  // What stands where; may be empty where nobody asks.
  virtual std::vector<TensorPlace> tensors() const { return {}; }
  // The model as the job's seed or model.init gives it.
  virtual void first_values(std::span<float> model) = 0;
  // Trains from `model` on the client's samples; `update` becomes the difference, without what clients do not send. The
  // same bits for the same task, in every process. Throws Error.
  virtual LocalResult train(const LocalTask& task, std::span<const float> model, std::span<float> update) = 0;
  // How good `model` is on samples of the training set: of clients that hold some of theirs out.
  virtual Figures evaluate(std::span<const std::uint64_t> samples, std::span<const float> model) = 0;

  // An evaluation in pieces, so that processes can share it: figures_of_piece() numbers for each, in any order, and
  // judge() of all.
  virtual std::size_t evaluation_pieces() const = 0;
  virtual std::size_t figures_of_piece() const = 0;
  virtual void measure(std::span<const float> model, std::size_t piece, std::span<double> figures) = 0;
  virtual Figures judge(std::span<const double> figures) = 0;

  // Weights and buffers as one safetensors file. Throws Error{kResource | kIo}.
  virtual void save(std::span<const float> model, const std::filesystem::path& path) = 0;
};

}  // namespace muster::federated
