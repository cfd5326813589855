// What happens when weights of a file are put into a model: which tensors fit, which are missing, of another shape, or
// too many. Decided before anything is loaded, and told to the user in full: nothing is left out silently. No torch
// here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/model/weights.h"

namespace muster::model {

// A parameter or buffer of a model.
struct InitTarget {
  std::string name;
  std::vector<std::int64_t> shape;
  Dtype dtype = Dtype::kF32;
};

struct InitReport {
  struct Pair {
    std::size_t target = 0;  // index of the model's tensor
    std::size_t source = 0;  // and of the file's
  };
  std::vector<Pair> loaded;
  std::vector<std::string> converted;   // of these: were of another floating-point type
  std::vector<std::string> skipped;     // left as they were begun, because a pattern says so
  std::vector<std::string> missing;     // not in the file
  std::vector<std::string> mismatched;  // of another shape or kind of type, with both
  std::vector<std::string> unexpected;  // in the file and not in the model

  // What is not skipped is loaded. A missing count of batches (num_batches_tracked), which old files do not have and
  // nothing depends on, does not stand in the way.
  bool complete() const;
  // "loaded 120 of 122 tensors, 2 skipped".
  std::string summary() const;
  // The summary, and a line for each kind with names.
  std::vector<std::string> lines() const;
};

// `skip` are patterns (base/pattern.h) of the model's names. Throws kInvalidInput for one that fits no name.
InitReport compare_weights(const Weights& weights, std::span<const InitTarget> targets,
                           std::span<const std::string> skip);

// The values of a floating-point tensor as floats. REQUIRES: a floating-point type, and as many elements.
void copy_floats(const TensorView& from, std::span<float> to);

}  // namespace muster::model
