// A sample is read as the array has it and turned on the way, where its channels come last. Statistics are gathered by
// Welford's method, since values may be of any size.
#include "muster/data/array_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::data {
namespace {

[[noreturn]] void invalid(const NpyArray& array, std::string message, std::string remedy = {}) {
  throw Error(ErrorKind::kInvalidInput, std::move(message), array.where(), std::move(remedy));
}

bool is_channels(std::int64_t extent) {
  return extent == 1 || extent == 3 || extent == 4;
}

}  // namespace

NpyArray::NpyArray(const std::filesystem::path& path) : where_(path.string()), file_(open_for_reading(path)) {
  std::vector<std::byte> front(static_cast<std::size_t>(std::min<std::uint64_t>(file_.size, kMostNpyHeader)));
  read_exactly(file_, 0, front, path);
  header_ = parse_npy_header(front, file_.size, where_);
}

NpyArray::NpyArray(std::vector<std::byte> bytes, std::string where)
    : where_(std::move(where)), bytes_(std::move(bytes)) {
  const std::span<const std::byte> all(bytes_);
  header_ = parse_npy_header(all.first(std::min(all.size(), kMostNpyHeader)), all.size(), where_);
}

void NpyArray::read(std::uint64_t first, std::span<std::byte> out) const {
  const std::uint64_t offset = header_.data_offset + first * header_.item_bytes;
  if (!in_memory()) return read_exactly(file_, offset, out, where_);
  MUSTER_CHECK(offset + out.size() <= bytes_.size(), "elements beyond the array");
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
}

ArrayTargets read_targets(const NpyArray& array, bool regression) {
  const NpyHeader& header = array.header();
  const auto& shape = header.shape;
  const bool column = shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] == 0) || (!column && !regression)) {
    invalid(array, fmt::format("has the shape ({}), which cannot be targets", fmt::join(shape, ", ")),
            regression ? "Targets have the shape (samples) or (samples, values)."
                       : "Labels have the shape (samples); of one-hot labels take array.argmax(1).");
  }
  std::vector<std::byte> bytes(header.data_bytes());
  array.read(0, bytes);
  ArrayTargets targets;
  if (regression) {
    targets.width = column ? 1 : shape[1];
    targets.values.resize(header.elements);
    npy_floats(header, bytes, targets.values);
    return targets;
  }
  targets.labels.reserve(header.elements);
  for (std::uint64_t i = 0; i < header.elements; ++i) {
    const auto element = std::span<const std::byte>(bytes).subspan(i * header.item_bytes, header.item_bytes);
    const std::int64_t label = npy_integer(header, element);
    float value = 0;
    npy_floats(header, element, std::span(&value, 1));
    constexpr std::int64_t kMostClasses = 1000000;
    if (label < 0 || label >= kMostClasses || value != static_cast<float>(label)) {
      invalid(array, fmt::format("element {} is {}; labels are the integers from 0 to {}", i, value, kMostClasses - 1),
              "For numbers to predict set loss.task = \"regression\".");
    }
    targets.labels.push_back(label);
  }
  return targets;
}

std::uint64_t ArrayTargets::samples() const {
  return labels.empty() ? values.size() / static_cast<std::uint64_t>(width) : labels.size();
}

std::vector<ValueScale> ArrayTargets::measure(std::span<const std::uint64_t> ids) const {
  std::vector<ValueScale> scales(static_cast<std::size_t>(width));
  for (std::size_t v = 0; v < scales.size(); ++v) {
    double count = 0;
    double mean = 0;
    double squares = 0;  // of deviations from the mean so far (Welford)
    for (const std::uint64_t id : ids) {
      const double value = values[id * scales.size() + v];
      if (!std::isfinite(value)) continue;  // named when it is read
      const double difference = value - mean;
      mean += difference / ++count;
      squares += difference * (value - mean);
    }
    scales[v].mean = mean;
    if (squares > 0) scales[v].stddev = std::sqrt(squares / count);
  }
  return scales;
}

void ArrayTargets::apply(const std::vector<ValueScale>& scales) {
  MUSTER_CHECK(scale.empty() && scales.size() == static_cast<std::size_t>(width), "a scale for each value, once");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ValueScale& of = scales[i % scales.size()];
    values[i] = static_cast<float>((static_cast<double>(values[i]) - of.mean) / of.stddev);
  }
  scale = scales;
}

ArrayDataset::ArrayDataset(NpyArray features, ArrayTargets targets, std::int64_t classes)
    : features_(std::move(features)), targets_(std::move(targets)) {
  const NpyHeader& header = features_.header();
  if (header.shape.empty() || header.elements == 0)
    invalid(features_, fmt::format("has the shape ({}): there are no samples in it", fmt::join(header.shape, ", ")));
  samples_ = static_cast<std::uint64_t>(header.shape[0]);
  const std::uint64_t count =
      classes > 0 ? targets_.labels.size() : targets_.values.size() / static_cast<std::uint64_t>(targets_.width);
  if (count != samples_) invalid(features_, fmt::format("has {} samples and {} targets", samples_, count));
  std::vector<std::int64_t> shape(header.shape.begin() + 1, header.shape.end());
  if (shape.empty()) shape.push_back(1);
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  channels_last_ = shape.size() == 3 && is_channels(shape[2]) && !is_channels(shape[0]);
  if (channels_last_) std::rotate(shape.begin(), shape.begin() + 2, shape.end());
  if (shape.size() == 1 || shape.size() == 3) channels_ = static_cast<std::uint64_t>(shape[0]);
  if (header.type == NpyType::kUnsigned && header.item_bytes == 1 && shape.size() > 1) unit_ = 255;
  spec_.shape = std::move(shape);
  spec_.classes = classes;
  if (classes == 0) {
    spec_.target = TargetKind::kValues;
    spec_.target_shape = {targets_.width};
    spec_.target_scale = targets_.scale;
  }
  normalize({std::vector<float>(channels_, 0.0F), std::vector<float>(channels_, 1.0F)});
}

void ArrayDataset::normalize(const Normalization& normalization) {
  validate(normalization, static_cast<std::int64_t>(channels_));
  scale_.clear();
  shift_.clear();
  for (std::size_t c = 0; c < channels_; ++c) {
    const double stddev = normalization.stddev[c];
    scale_.push_back(static_cast<float>(1.0 / (unit_ * stddev)));
    shift_.push_back(static_cast<float>(-normalization.mean[c] / stddev));
  }
}

Normalization ArrayDataset::measure(std::span<const std::uint64_t> ids) const {
  struct Sums {
    double shift = 0;
    double sum = 0;
    double squares = 0;
    std::uint64_t count = 0;
  };
  std::vector<Sums> sums(channels_);
  std::vector<float> sample(spec_.elements());
  const std::size_t plane = sample.size() / channels_;
  for (const std::uint64_t id : ids) {
    read_raw(id, sample);
    for (std::size_t k = 0; k < sample.size(); ++k) {
      Sums& s = sums[k / plane];
      const double value = sample[k];
      if (!std::isfinite(value)) continue;
      if (s.count++ == 0) s.shift = value;
      s.sum += value - s.shift;
      s.squares += (value - s.shift) * (value - s.shift);
    }
  }
  Normalization normalization;
  for (const Sums& s : sums) {
    const double count = std::max<double>(1, static_cast<double>(s.count));
    const double mean = s.sum / count;
    const double variance = s.squares / count - mean * mean;
    const double stddev = variance > 0 ? std::sqrt(variance) / unit_ : 0;
    normalization.mean.push_back(static_cast<float>((s.shift + mean) / unit_));
    normalization.stddev.push_back(static_cast<float>(stddev) > 0 ? static_cast<float>(stddev) : 1.0F);
  }
  return normalization;
}

void ArrayDataset::read_raw(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(id < size(), "sample id beyond the data set");
  MUSTER_CHECK(features.size() == spec_.elements(), "features of another size than the samples");
  std::vector<std::byte> bytes(features.size() * features_.header().item_bytes);
  features_.read(id * features.size(), bytes);
  if (!channels_last_) return npy_floats(features_.header(), bytes, features);
  std::vector<float> last(features.size());
  npy_floats(features_.header(), bytes, last);
  const std::size_t plane = features.size() / channels_;
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t i = 0; i < plane; ++i)
      features[c * plane + i] = last[i * channels_ + c];
  }
}

void ArrayDataset::read_features(std::uint64_t id, std::span<float> features) const {
  read_raw(id, features);
  const std::size_t plane = features.size() / channels_;
  bool finite = true;
  for (std::size_t c = 0; c < channels_; ++c) {
    for (float& value : features.subspan(c * plane, plane)) {
      finite &= std::isfinite(value);
      value = value * scale_[c] + shift_[c];
    }
  }
  if (!finite) {
    throw Error(ErrorKind::kDamaged, "has an element that is not a finite number", name(id));
  }
}

std::int64_t ArrayDataset::read(std::uint64_t id, std::span<float> features) const {
  MUSTER_CHECK(spec_.target == TargetKind::kClass, "arrays of values have no labels");
  read_features(id, features);
  return targets_.labels[id];
}

void ArrayDataset::read_sample(std::uint64_t id, const SampleRoom& room) const {
  read_features(id, room.features);
  if (spec_.target == TargetKind::kClass) {
    room.labels[0] = targets_.labels[id];
    return;
  }
  const auto width = static_cast<std::uint64_t>(targets_.width);
  for (std::uint64_t i = 0; i < width; ++i) {
    room.values[i] = targets_.values[id * width + i];
    if (!std::isfinite(room.values[i])) {
      throw Error(ErrorKind::kDamaged, "has a target that is not a finite number", name(id));
    }
  }
}

std::string ArrayDataset::name(std::uint64_t id) const {
  return fmt::format("{}: sample {}", features_.where(), id);
}

}  // namespace muster::data
