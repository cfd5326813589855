// ImageDataset: 8-bit images held in memory, normalised as they are read.
//
// Bytes stay bytes (a quarter of the memory of floats); the conversion costs less than the copy it replaces.
#pragma once

#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/images.h"

namespace muster::data {

// Immutable after construction. Thread safety: as Dataset.
class ImageDataset final : public Dataset {
 public:
  // Throws Error{kInvalidInput} if the images are not consistent or the normalization does not fit them (images.h).
  ImageDataset(Images images, const Normalization& normalization);

  std::uint64_t size() const override { return images_.count(); }
  const SampleSpec& spec() const override { return spec_; }
  // The pixel x of channel c becomes (x / 255 - mean[c]) / stddev[c], computed as x * scale[c] + shift[c].
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;

 private:
  Images images_;
  SampleSpec spec_;
  std::vector<float> scale_;  // per channel
  std::vector<float> shift_;
};

}  // namespace muster::data
