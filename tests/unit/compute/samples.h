// Keyed random arrays for the tests of this folder: only IEEE basic operations, so that they are equal everywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/random.h"

namespace muster::compute {

// `count` floats spread evenly over [-scale, scale), another sequence for each `name`.
inline std::vector<float> samples(std::size_t count, std::uint64_t name, double scale = 1) {
  RandomStream stream({.seed = 20, .purpose = Purpose::kSynthetic, .sample = name});
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>((2 * stream.uniform() - 1) * scale);
  return values;
}

// An array whose first float stands on a line of the cache, as those of the flat layout do, or `skew` floats after one.
class LineArray {
 public:
  explicit LineArray(std::size_t count, std::size_t skew = 0)
      : storage_(count + skew + kLine), count_(count), skew_(skew) {}
  LineArray(const std::vector<float>& values, std::size_t skew = 0) : LineArray(values.size(), skew) {
    std::copy(values.begin(), values.end(), span().begin());
  }

  std::span<float> span() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) / sizeof(float);
    return {storage_.data() + (kLine - address % kLine) % kLine + skew_, count_};
  }
  std::vector<float> values() {
    const std::span<float> all = span();
    return {all.begin(), all.end()};
  }

 private:
  static constexpr std::size_t kLine = 16;
  std::vector<float> storage_;
  std::size_t count_;
  std::size_t skew_;
};

}  // namespace muster::compute
