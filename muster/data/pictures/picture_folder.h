// PictureFolder: a folder CLASS/FILE.{jpg,jpeg,png,webp,bmp} of pictures of any size as a data set of one shape; or
// pictures that a file of labels names (picture_labels.h).
//
// Classes are the names of the sub-folders in byte order, samples their files in byte order: every host that holds the
// same names has the same samples. Hidden names are left out; files of other endings too, and counted. Links are
// followed, to files and to folders of classes; nothing is looked for deeper, so no link can lead in a circle. Only
// names are kept in memory (about 20 bytes a picture); files are opened when they are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/pictures/crop.h"
#include "muster/data/pictures/resize.h"

namespace muster::data {

// The names of a folder's pictures. Immutable.
class PictureList {
 public:
  // Throws Error{kNotFound}; kInvalidInput, naming it: no classes, a class without pictures, a folder inside a class;
  // kNotFound for a link to nothing; kIo.
  explicit PictureList(std::filesystem::path folder);
  // The pictures that lie in a folder itself, as one class without a name. Throws as above.
  static PictureList flat(std::filesystem::path folder);
  // A single picture. Throws kInvalidInput if its name does not end as that of a picture.
  static PictureList one(const std::filesystem::path& file);
  // Pictures by their names below the folder, each with its label. REQUIRES: as many labels, each that of a class.
  static PictureList labelled(std::filesystem::path folder, const std::vector<std::string>& names,
                              std::vector<std::int64_t> labels, std::vector<std::string> class_names);

  std::uint64_t size() const { return ends_.size(); }
  const std::vector<std::string>& class_names() const { return class_names_; }
  std::int64_t label(std::uint64_t id) const;
  std::filesystem::path path(std::uint64_t id) const;
  // Files that are no pictures by their names, by their endings in small letters (".gif").
  const std::map<std::string, std::uint64_t>& left_out() const { return left_out_; }

 private:
  PictureList() = default;
  void add_class(const std::string& name);

  std::filesystem::path folder_;
  std::vector<std::string> class_names_;
  std::vector<std::uint64_t> class_ends_;  // the first sample after each class; empty if there are labels_
  std::vector<std::int64_t> labels_;       // of samples whose names do not say it
  std::string names_;                      // of all files, one after the other
  std::vector<std::uint64_t> ends_;        // of each name in names_
  std::map<std::string, std::uint64_t> left_out_;
};

// ".jpg, .jpeg, .png, .webp and .bmp".
std::string picture_endings();
// "3 .gif and 1 .txt files", or an empty text for none.
std::string describe_left_out(const std::map<std::string, std::uint64_t>& left_out);

struct PictureOptions {
  int channels = 3;  // 3 or 1 (grey)
  Extent extent = {224, 224};
  double centre_part = 1;                          // of the largest window in the middle: what read() takes
  std::optional<RandomWindow> random_window = {};  // empty: training takes the middle too
  std::uint64_t seed = 0;                          // of the random windows
  PictureLimits limits = {};
};

// Immutable after construction. Thread safety: as Dataset.
class PictureFolder final : public Dataset {
 public:
  // Throws Error{kInvalidInput} for options that cannot be, or a normalization that does not fit the channels.
  PictureFolder(PictureList list, const PictureOptions& options, const Normalization& normalization);

  std::uint64_t size() const override { return list_.size(); }
  const SampleSpec& spec() const override { return spec_; }
  // Both throw Error{kDamaged} for a picture that is cut, altered or above the limits, kNotFound if it is gone, kIo.
  std::int64_t read(std::uint64_t id, std::span<float> features) const override;
  std::int64_t read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const override;
  std::string name(std::uint64_t id) const override { return list_.path(id).string(); }
  std::int64_t label(std::uint64_t id) const override { return list_.label(id); }
  bool knows_labels() const override { return true; }

  const PictureList& list() const { return list_; }

 private:
  std::int64_t read_window(std::uint64_t id, std::optional<std::uint64_t> epoch, std::span<float> features) const;

  PictureList list_;
  PictureOptions options_;
  PictureFormat format_;
  SampleSpec spec_;
};

// Mean and deviation of every channel over the pixels of these pictures; those that cannot be decoded are left out.
// Throws what the last of them threw if there is no other. REQUIRES: ids of the list, at least one.
Normalization measure_pictures(const PictureList& list, const PictureOptions& options,
                               std::span<const std::uint64_t> ids);

}  // namespace muster::data
