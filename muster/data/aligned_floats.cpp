// Grows and never shrinks:
// batches of one job have one size, and the memory goes round between loader and training.
#include "muster/data/aligned_floats.h"

#include <limits>
#include <new>
#include <utility>

namespace muster::data {

AlignedFloats& AlignedFloats::operator=(AlignedFloats&& other) noexcept {
  if (this != &other) {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
  }
  return *this;
}

void AlignedFloats::resize_discarding(std::size_t size) {
  if (size > capacity_) {
    if (size > std::numeric_limits<std::size_t>::max() / sizeof(float)) throw std::bad_alloc();
    // The old memory goes first: both at once is never needed.
    memory_.reset();
    size_ = capacity_ = 0;
    memory_.reset(static_cast<float*>(::operator new (size * sizeof(float), std::align_val_t{kAlignment})));
    capacity_ = size;
  }
  size_ = size;
}

void AlignedFloats::Release::operator()(float* memory) const {
  ::operator delete (memory, std::align_val_t{kAlignment});
}

}  // namespace muster::data
