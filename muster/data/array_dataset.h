// ArrayDataset: the samples of NumPy arrays: features x of shape {samples, ...}, and a target y for each.
//
// Arrays in .npy files are read sample by sample, so they may be larger than memory; those out of .npz files are held
// in memory. Images are given to models as {channels, height, width}: a sample {height, width} gets one channel, and
// {height, width, channels} with 1, 3 or 4 channels last, and not first, is turned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/npy.h"

namespace muster::data {

// One array, in a file or in memory. A value that moves.
class NpyArray {
 public:
  // Throws what open_for_reading and parse_npy_header throw.
  explicit NpyArray(const std::filesystem::path& path);
  // The whole .npy file in memory.
  NpyArray(std::vector<std::byte> bytes, std::string where);

  const NpyHeader& header() const { return header_; }
  const std::string& where() const { return where_; }
  bool in_memory() const { return !file_.descriptor.valid(); }
  // Copies whole elements from the `first` one on. Throws kIo, kDamaged (the file has become shorter).
  // REQUIRES: they are elements of the array.
  void read(std::uint64_t first, std::span<std::byte> out) const;

 private:
  std::string where_;
  OpenFile file_;
  std::vector<std::byte> bytes_;
  NpyHeader header_;
};

// Targets, which are always held in memory.
struct ArrayTargets {
  std::vector<std::int64_t> labels = {};  // of classification
  std::vector<float> values = {};         // of regression, `width` a sample
  std::int64_t width = 1;
  std::vector<ValueScale> scale = {};  // of values that were scaled, one for each of `width`

  std::uint64_t samples() const;
  // Mean and (population) deviation of each value over these samples; deviation 1 where there is none.
  std::vector<ValueScale> measure(std::span<const std::uint64_t> ids) const;
  // Values are (y - mean) / stddev from now on. REQUIRES: not scaled yet; one for each value.
  void apply(const std::vector<ValueScale>& scales);
};
// Throws kInvalidInput: another shape than {samples}, {samples, 1} or, for values, {samples, width}; labels that are
// no integers or negative.
ArrayTargets read_targets(const NpyArray& array, bool regression);

// Immutable after construction. Thread safety: as Dataset.
class ArrayDataset final : public Dataset {
 public:
  // `classes` is 0 for values. Throws kInvalidInput (no samples, no elements, another number of targets).
  ArrayDataset(NpyArray features, ArrayTargets targets, std::int64_t classes);

  // From now on element x of channel c is (x / unit - mean[c]) / stddev[c]; the unit is 255 for pictures of bytes, else
  // 1. Throws kInvalidInput unless there is one of each for every channel. REQUIRES: nobody reads meanwhile.
  void normalize(const Normalization& normalization);
  // Mean and standard deviation of each channel (a feature, where samples have one dimension) over these
  // samples; 1 where there is no variance. What is not finite does not count.
  Normalization measure(std::span<const std::uint64_t> ids) const;

  std::uint64_t size() const override { return samples_; }
  const SampleSpec& spec() const override { return spec_; }
  // Throw kDamaged, naming file and sample, when an element is not a finite number.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  void read_sample(std::uint64_t id, const SampleRoom& room) const override;
  // File and number.
  std::string name(std::uint64_t id) const override;
  std::int64_t label(std::uint64_t id) const override { return targets_.labels[id]; }
  bool knows_labels() const override { return true; }

 private:
  void read_raw(std::uint64_t id, std::span<float> features) const;
  void read_features(std::uint64_t id, std::span<float> features) const;

  NpyArray features_;
  ArrayTargets targets_;
  SampleSpec spec_;
  std::uint64_t samples_ = 0;
  std::uint64_t channels_ = 1;
  bool channels_last_ = false;
  double unit_ = 1;
  std::vector<float> scale_;  // per channel
  std::vector<float> shift_;
};

}  // namespace muster::data
