#include "muster/data/image_dataset.h"

#include <utility>

#include "muster/base/check.h"

namespace muster::data {

ImageDataset::ImageDataset(Images images, const Normalization& normalization) : images_(std::move(images)) {
  validate(images_);
  validate(normalization, images_.channels);
  spec_ = {.shape = {images_.channels, images_.height, images_.width}, .classes = images_.classes};
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    const double stddev = normalization.stddev[c];
    scale_.push_back(static_cast<float>(1.0 / (255.0 * stddev)));
    shift_.push_back(static_cast<float>(-normalization.mean[c] / stddev));
  }
}

std::int64_t ImageDataset::read(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(id < size(), "sample id beyond the data set");
  MUSTER_CHECK(features.size() == spec_.elements(), "features of another size than the samples");
  const std::size_t plane = features.size() / scale_.size();
  const std::uint8_t* in = images_.pixels.data() + id * features.size();
  float* out = features.data();
  for (std::size_t c = 0; c < scale_.size(); ++c, in += plane, out += plane) {
    const float scale = scale_[c];
    const float shift = shift_[c];
    for (std::size_t i = 0; i < plane; ++i)
      out[i] = static_cast<float>(in[i]) * scale + shift;
  }
  return images_.labels[id];
}

}  // namespace muster::data
