// Updates as whole numbers modulo 2^32, so that sums are exact and masks can hide them.
//
// A number v of an update with |v| <= range and weight w (0 to 1, of the largest that a client may have) is the word
// round(v / range * w * levels), where levels = floor((2^31 - 1) / most clients): so the sum of all clients' words, as
// a signed number of 32 bits, is the sum, whatever they sent. One step is range * clients / 2^31: for 100 clients
// 4.7e-8 of the range, less than a float of that size tells apart. Behind the update's words stand the weight and the
// loss, in the same way (loss: range kLossRange). Pure. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace muster::federated {

constexpr std::size_t kExtraWords = 2;  // the weight, the loss
constexpr double kLossRange = 1024;

class FixedPoint {
 public:
  // REQUIRES: range > 0, most_clients > 0.
  FixedPoint(double range, std::uint64_t most_clients);

  // What is beyond the range is taken for its end. REQUIRES: finite values, 0 < weight <= 1, words.size() ==
  // values.size() + kExtraWords.
  void encode(std::span<const float> values, double weight, double loss, std::span<std::uint32_t> words) const;

  // Of the sum of clients' words: the sum of weights (0: nobody's), the mean loss, and the mean or the sum of updates
  // into `values`. REQUIRES: sizes as for encode(); for the mean a sum of weights that is not 0.
  double weight(std::span<const std::uint32_t> sum) const;
  double loss(std::span<const std::uint32_t> sum) const;
  void mean(std::span<const std::uint32_t> sum, std::span<float> values) const;
  void total(std::span<const std::uint32_t> sum, std::span<float> values) const;

 private:
  const double range_;
  const double levels_;
};

}  // namespace muster::federated
