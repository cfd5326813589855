// Models larger than a process's memory: parameters with addresses and nothing behind them.
//
// A module of LibTorch is made with its first weights, all of them, in the memory of whoever makes it. A hollow model
// is made by the same code, and what its large parameters are written to is a few pages that stand behind all of them,
// again and again: it has names, sizes and operations, and for values zeros that nobody may write to. make_at() makes
// it once more, with its values where they are to stay, in somebody else's memory; random numbers are drawn alike, so
// these are the bits of any other way.
//
// Thread safety: a model is made by one thread; what others allocate meanwhile is theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <c10/util/ThreadLocalDebugInfo.h>

#include "muster/model/net.h"

namespace muster::model {

// While it lives large tensors that this thread makes are hollow. What is computed with them is meaningless, and what
// takes places from them may end anywhere: for measuring a model's size, not for indices.
class HollowTensors {
 public:
  HollowTensors();
  HollowTensors(const HollowTensors&) = delete;
  HollowTensors& operator=(const HollowTensors&) = delete;

 private:
  friend class HollowModel;
  class Route;
  class StandIn;
  explicit HollowTensors(std::shared_ptr<Route> route);
  const std::shared_ptr<Route> route_;
  const c10::DebugInfoGuard guard_;
};

class HollowModel {
 public:
  // Makes the model, the same one each time.
  using Make = std::function<std::shared_ptr<Net>()>;
  // Where a parameter's floats are to be, 64 bytes aligned; null: anywhere.
  using Place = std::function<float*(const std::string& name)>;

  // Throws Error{kUnsupported} for a model with large tensors that are neither parameters nor buffers, and what `make`
  // throws.
  explicit HollowModel(Make make);

  // Buffers and small parameters are real.
  const std::shared_ptr<Net>& net() const { return net_; }
  // The model with its values: large fp32 parameters at their places, which must outlive it, and the rest in memory of
  // its own. Throws what `make` throws.
  std::shared_ptr<Net> make_at(const Place& place) const;

 private:
  const Make make_;
  std::shared_ptr<Net> net_;
  // Of the large parameters that are alone in their memory: which of the large tensors that were made it is.
  struct Made {
    std::string name;
    std::size_t number = 0;
  };
  std::vector<Made> made_;
  std::size_t count_ = 0;  // of the large tensors that are made with the model, those for a moment included
};

}  // namespace muster::model
