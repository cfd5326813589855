// The nets of vertical training as the parties' protocol sees them; trainer/split_nets.h makes them of LibTorch.
//
// Rows are places in the alignment (vertical_plan.h). Numbers are row after row. What a net computes is a function of
// its first values and the calls since, bit for bit. Thread safety: one thread at a time. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster::federated {

// Figures of an epoch: on the training rows while it trained, and on the test rows after it.
struct EpochFigures {
  double train_loss = 0;
  double test_loss = 0;
  std::vector<std::pair<std::string, double>> metrics{};  // the task's first one first
};

// What any party's net can do with its state: weights, the optimizer's, and figures of the epoch so far.
class PartyNet {
 public:
  virtual ~PartyNet() = default;

  // As the seed gives it.
  virtual void reset() = 0;
  // Throw Error: what the file system refuses; kMismatch for a file of another net.
  virtual void save(const std::filesystem::path& path) const = 0;
  virtual void load(const std::filesystem::path& path) = 0;
  // The weights alone, for any program that reads the format.
  virtual void save_model(const std::filesystem::path& path) const = 0;
};

// Of a party that has columns and no labels.
class BottomNet : public PartyNet {
 public:
  virtual std::uint64_t width() const = 0;
  // Its activations, width() numbers a row. To train it, backward() has to follow.
  virtual std::vector<float> forward(std::span<const std::uint64_t> rows, bool train) = 0;
  // One step of its optimizer, from the gradient of what forward() gave.
  virtual void backward(std::span<const float> gradient) = 0;
};

// Of the label holder: its own columns' net and the one on top of all.
class TopNet : public PartyNet {
 public:
  // `activations` are the others', in their order. To train: one step of the optimizer; gives the gradient of each.
  // Else the rows are measured, and nothing is given. Throws Error{kCompute} when the loss is not finite.
  virtual std::vector<std::vector<float>> step(std::span<const std::uint64_t> rows,
                                               std::span<const std::vector<float>> activations, bool train) = 0;
  // Of the steps since the last call.
  virtual EpochFigures end_epoch() = 0;
};

}  // namespace muster::federated
