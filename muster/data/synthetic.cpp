// Every element is computed from (seed, sample, element) alone. The kinds of streams are numbered, and these numbers
// are part of the data: never renumber them.
#include "muster/data/synthetic.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/random.h"

namespace muster::data {
namespace {

// Which of the two kinds of stream a key names, in its `step`. Part of the data's bits: never renumber.
constexpr std::uint64_t kPrototypes = 0;
constexpr std::uint64_t kSamples = 1;

// A bijection of 64 bits that changes about half of its output for any change of its input (two rounds of
// xorshift-multiply; constants of SplitMix64).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

// Noise of variance 1 for the element that `word` hashes to.
float noise(std::uint64_t word) {
  // Four uniform integers of 0 .. 65535: mean 131070, variance 4 (2^32 - 1) / 12.
  constexpr float kInverseDeviation = 2.6428998e-05F;
  const auto sum =
      static_cast<std::int32_t>((word & 0xFFFF) + ((word >> 16) & 0xFFFF) + ((word >> 32) & 0xFFFF) + (word >> 48));
  return static_cast<float>(sum - 131070) * kInverseDeviation;
}

// Position of element i in the hash's input: steps of an odd constant never meet within 2^64 elements.
std::uint64_t place(std::uint64_t start, std::uint64_t i) {
  return start + i * 0x9E3779B97F4A7C15U;
}

SampleSpec checked_spec(const SyntheticOptions& options) {
  constexpr std::uint64_t kMaxPrototypeFloats = std::uint64_t{1} << 28;
  const auto refuse = [](std::string message) {
    throw Error(ErrorKind::kInvalidInput, std::move(message), "synthetic data");
  };
  if (options.shape.empty()) refuse("has no shape");
  if (options.classes < 2) refuse(fmt::format("has {} classes; at least 2 are needed", options.classes));
  if (!std::isfinite(options.signal)) refuse(fmt::format("has the signal {}; it must be finite", options.signal));
  std::uint64_t floats = static_cast<std::uint64_t>(options.classes);
  bool overflow = false;
  for (const std::int64_t extent : options.shape) {
    if (extent <= 0) {
      refuse(fmt::format("has the shape {}; every extent must be positive", fmt::join(options.shape, " x ")));
    }
    overflow |= __builtin_mul_overflow(floats, static_cast<std::uint64_t>(extent), &floats);
  }
  if (overflow || floats > kMaxPrototypeFloats) {
    refuse(fmt::format("has {} classes of shape {}: more than 2^28 numbers", options.classes,
                       fmt::join(options.shape, " x ")));
  }
  std::uint64_t end = 0;
  if (__builtin_add_overflow(options.first_sample, options.samples, &end)) refuse("has sample numbers beyond 2^64");
  return {.shape = options.shape, .classes = options.classes};
}

}  // namespace

Synthetic::Synthetic(const SyntheticOptions& options) : options_(options), spec_(checked_spec(options)) {
  const std::uint64_t elements = spec_.elements();
  const auto classes = static_cast<std::uint64_t>(options.classes);
  prototypes_.reserve(classes * elements);
  for (std::uint64_t c = 0; c < classes; ++c) {
    const std::uint64_t start =
        derive_seed({.seed = options.seed, .purpose = Purpose::kSynthetic, .step = kPrototypes, .sample = c});
    for (std::uint64_t i = 0; i < elements; ++i)
      prototypes_.push_back(noise(mix(place(start, i))) * options.signal);
  }
}

std::int64_t Synthetic::read(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(id < size(), "sample id beyond the data set");
  MUSTER_CHECK(features.size() == spec_.elements(), "features of another size than the samples");
  RandomStream stream(
      {.seed = options_.seed, .purpose = Purpose::kSynthetic, .step = kSamples, .sample = options_.first_sample + id});
  const std::uint64_t label = stream.below(static_cast<std::uint64_t>(spec_.classes));
  const std::uint64_t start = stream.next_u64();
  const float* prototype = prototypes_.data() + label * features.size();
  for (std::size_t i = 0; i < features.size(); ++i)
    features[i] = prototype[i] + noise(mix(place(start, i)));
  return static_cast<std::int64_t>(label);
}

}  // namespace muster::data
