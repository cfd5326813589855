// Where the numbers of a narrower model stand in the whole one: each tensor is the corner of the tensor of the same
// name (HeteroFL: Diao et al. 2021). A layer behind a flattened picture fits, because channels come first there.
//
// A value. No torch here.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "muster/federated/local_training.h"

namespace muster::federated {

class SliceMap {
 public:
  // Throws Error{kInvalidInput}: another tensor, of more dimensions, or larger than the whole model's.
  SliceMap(std::span<const TensorPlace> whole, std::span<const TensorPlace> slice);

  std::size_t floats() const { return floats_; }  // of the narrower model
  // REQUIRES, here and below: arrays as long as the models.
  void take(std::span<const float> whole, std::span<float> slice) const;
  // whole += weight x slice, where the slice is.
  void add(std::span<const float> slice, float weight, std::span<float> whole) const;
  // whole += weight, where the slice is.
  void cover(double weight, std::span<double> whole) const;

 private:
  struct Run {
    std::size_t whole = 0;
    std::size_t slice = 0;
    std::size_t count = 0;
  };
  std::vector<Run> runs_;
  std::size_t floats_ = 0;
};

// change[i] = sum[i] / weights[i], or 0 where nobody has number i, in place.
void divide_by_cover(std::span<float> sum, std::span<const double> weights);

}  // namespace muster::federated
