// Words are rounded in double: to the nearest, halves away from zero, on every machine alike.
// A word is a signed number in two's complement, so that sums wrap around as unsigned ones do.
#include "muster/federated/secure/fixed_point.h"

#include <algorithm>
#include <cmath>

#include "muster/base/check.h"

namespace muster::federated {
namespace {

std::uint32_t word_of(double value) {
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(std::llround(value)));
}

double number_of(std::uint32_t word) {
  return static_cast<double>(static_cast<std::int32_t>(word));
}

}  // namespace

FixedPoint::FixedPoint(double range, std::uint64_t most_clients)
    : range_(range), levels_(std::floor(static_cast<double>(0x7fffffff) / static_cast<double>(most_clients))) {
  MUSTER_CHECK(range > 0 && levels_ >= 1, "a range, and room for all clients");
}

void FixedPoint::encode(std::span<const float> values, double weight, double loss,
                        std::span<std::uint32_t> words) const {
  MUSTER_CHECK(words.size() == values.size() + kExtraWords, "a word for each value and two more");
  const double scale = levels_ * weight;
  for (std::size_t i = 0; i < values.size(); ++i)
    words[i] = word_of(std::clamp(static_cast<double>(values[i]) / range_, -1.0, 1.0) * scale);
  words[values.size()] = word_of(scale);
  words[values.size() + 1] = word_of(std::clamp(std::isfinite(loss) ? loss / kLossRange : 0.0, -1.0, 1.0) * scale);
}

double FixedPoint::weight(std::span<const std::uint32_t> sum) const {
  return number_of(sum[sum.size() - kExtraWords]) / levels_;
}

double FixedPoint::loss(std::span<const std::uint32_t> sum) const {
  const double weight = number_of(sum[sum.size() - kExtraWords]);
  return weight > 0 ? number_of(sum.back()) / weight * kLossRange : 0;
}

void FixedPoint::mean(std::span<const std::uint32_t> sum, std::span<float> values) const {
  const double factor = range_ / number_of(sum[values.size()]);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(number_of(sum[i]) * factor);
}

void FixedPoint::total(std::span<const std::uint32_t> sum, std::span<float> values) const {
  const double factor = range_ / levels_;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(number_of(sum[i]) * factor);
}

}  // namespace muster::federated
