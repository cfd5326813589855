// ImageDataset: 8-bit images held in memory, normalised as they are read.
//
// Bytes stay bytes (a quarter of the memory of floats); the conversion costs less than the copy it replaces.
#pragma once

#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/images.h"

namespace muster::data {

// Immutable after construction. Thread safety: as Dataset.
class ImageDataset final : public Dataset {
 public:
  // Throws Error{kInvalidInput} if the images are not consistent or the normalization does not fit them (images.h).
  // `origin` names their file; samples are called by it and their number.
  ImageDataset(Images images, const Normalization& normalization, std::string origin = {});

  std::uint64_t size() const override { return images_.count(); }
  const SampleSpec& spec() const override { return spec_; }
  // The pixel x of channel c becomes (x / 255 - mean[c]) / stddev[c], computed as x * scale[c] + shift[c].
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  std::string name(std::uint64_t id) const override;
  std::int64_t label(std::uint64_t id) const override { return images_.labels[id]; }
  bool knows_labels() const override { return true; }

 private:
  Images images_;
  std::string origin_;
  SampleSpec spec_;
  std::vector<float> scale_;  // per channel
  std::vector<float> shift_;
};

}  // namespace muster::data
