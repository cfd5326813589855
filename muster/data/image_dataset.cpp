// The normalisation becomes one multiplication and one addition a pixel (scale_bytes.h). Nothing changes after
// construction, so any number of threads may read.
#include "muster/data/image_dataset.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/data/scale_bytes.h"

namespace muster::data {

ImageDataset::ImageDataset(Images images, const Normalization& normalization, std::string origin)
    : images_(std::move(images)), origin_(std::move(origin)) {
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
  const auto pixels = std::span(images_.pixels).subspan(id * features.size(), features.size());
  for (std::size_t c = 0; c < scale_.size(); ++c)
    scale_bytes(pixels.subspan(c * plane, plane), scale_[c], shift_[c], features.subspan(c * plane, plane));
  return images_.labels[id];
}

std::string ImageDataset::name(std::uint64_t id) const {
  return origin_.empty() ? std::string() : fmt::format("{}: image {}", origin_, id);
}

}  // namespace muster::data
