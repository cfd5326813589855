// Synthetic: samples computed from their id, of any shape and number. For benchmarks without files, and for tests.
//
// A sample is the prototype of its class times `signal` plus noise of variance 1, so a model can learn it.
// Label and noise are keyed by (seed, sample): no order of reading, and no number of readers, changes a bit.
// The noise of an element is the sum of the four 16-bit fields of a 64-bit hash of (the sample's Philox word,
// the element), shifted to mean 0 and scaled to variance 1: close to a normal distribution (kurtosis 2.7,
// never beyond 3.47) at two multiplications an element, where a real normal would make reading slower than
// the models that are to be measured.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/data/dataset.h"

namespace muster::data {

struct SyntheticOptions {
  std::vector<std::int64_t> shape = {3, 32, 32};
  std::int64_t classes = 10;
  std::uint64_t samples = 50000;
  std::uint64_t seed = 0;
  // Sample 0 here is this sample of the endless sequence of the seed: a test set starts where its training set ends.
  std::uint64_t first_sample = 0;
  float signal = 1.0F;  // size of a prototype's elements in standard deviations of the noise; 0 is nothing to learn
};

// Immutable after construction. Thread safety: as Dataset.
class Synthetic final : public Dataset {
 public:
  // Computes the prototypes (classes x elements floats). Throws Error{kInvalidInput}: no shape or one that is
  // not positive, fewer than 2 classes, more than 2^28 floats of prototypes, ids beyond 64 bits, a signal
  // that is not finite.
  explicit Synthetic(const SyntheticOptions& options);

  std::uint64_t size() const override { return options_.samples; }
  const SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;

 private:
  SyntheticOptions options_;
  SampleSpec spec_;
  std::vector<float> prototypes_;  // class by class, already times the signal
};

}  // namespace muster::data
