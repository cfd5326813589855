// The state of a simulation as a file: whole after every round, so that one that was killed goes on after the last
// whole round with the same bits. No torch here.
#pragma once

#include <filesystem>
#include <optional>

#include "muster/federated/simulation.h"

namespace muster::federated {

class StateFile {
 public:
  explicit StateFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Throws Error{kResource | kIo}; then what stood there still does.
  void write(const State& state) const;
  // Nothing when there is none. Throws Error{kDamaged | kIo}.
  std::optional<State> read() const;

 private:
  std::filesystem::path path_;
};

}  // namespace muster::federated
