// AlignedFloats: memory for the features of a batch, on a 64-byte boundary (a cache line; what vector kernels like
// best).
//
// Unlike a vector it does not clear memory that is about to be overwritten. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace muster::data {

// A value that moves. Moved-from objects are empty.
class AlignedFloats {
 public:
  static constexpr std::size_t kAlignment = 64;

  AlignedFloats() = default;
  AlignedFloats(AlignedFloats&& other) noexcept { *this = std::move(other); }
  AlignedFloats& operator=(AlignedFloats&& other) noexcept;

  // Room for `size` floats of unspecified value; keeps the memory it has when that is enough. Throws std::bad_alloc.
  void resize_discarding(std::size_t size);

  float* data() { return memory_.get(); }
  const float* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  std::span<float> span() { return {data(), size_}; }
  std::span<const float> span() const { return {data(), size_}; }

 private:
  struct Release {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Release> memory_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace muster::data
