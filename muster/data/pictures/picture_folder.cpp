// The names are listed once, in byte order; everything else happens when a sample is read, in whatever thread reads it:
// open, decode the window, resize, scale.
#include "muster/data/pictures/picture_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/data/picture_parts.h"
#include "muster/data/read_file.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{256} << 20;

// In byte order, without hidden ones. Throws Error{kNotFound | kIo}.
std::vector<fs::directory_entry> visible_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure)) {
    if (it->path().filename().native().front() != '.') entries.push_back(*it);
  }
  if (failure) {
    const bool missing = failure == std::errc::no_such_file_or_directory || failure == std::errc::not_a_directory;
    throw Error(missing ? ErrorKind::kNotFound : ErrorKind::kIo,
                fmt::format("cannot list the folder: {}", failure.message()), folder.string());
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().filename().native() < b.path().filename().native(); });
  return entries;
}

// Of what a link leads to.
fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code failure;
  const fs::file_type type = entry.status(failure).type();
  if (type == fs::file_type::not_found) {
    throw Error(ErrorKind::kNotFound, "is a link to a file that is not there", entry.path().string());
  }
  if (type == fs::file_type::none) {
    throw Error(ErrorKind::kIo, fmt::format("cannot be looked at: {}", failure.message()), entry.path().string());
  }
  return type;
}

constexpr std::array<std::string_view, 5> kEndings{".jpg", ".jpeg", ".png", ".webp", ".bmp"};

std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return ending;
}

}  // namespace

bool is_picture_name(const fs::path& path) {
  return std::find(kEndings.begin(), kEndings.end(), ending_of(path)) != kEndings.end();
}

std::string picture_endings() {
  const std::vector<std::string> endings(kEndings.begin(), kEndings.end());
  return join_words(endings);
}

std::string describe_left_out(const std::map<std::string, std::uint64_t>& left_out) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> parts;
  std::uint64_t others = 0;
  for (const auto& [ending, count] : left_out) {
    if (parts.size() < kMostNamed) {
      parts.push_back(fmt::format("{} {}", count, ending.empty() ? "without an ending" : excerpt(ending, 20)));
    } else {
      others += count;
    }
  }
  if (others > 0) parts.push_back(fmt::format("{} others", others));
  return parts.empty() ? std::string() : fmt::format("{} files", join_words(parts));
}

PictureList::PictureList(std::filesystem::path folder) : folder_(std::move(folder)) {
  for (const fs::directory_entry& entry : visible_entries(folder_)) {
    if (type_of(entry) == fs::file_type::directory) add_class(entry.path().filename().string());
  }
  if (class_names_.empty()) {
    throw Error(ErrorKind::kInvalidInput, "there are no folders of classes in it", folder_.string(),
                "Put the pictures into one sub-folder for each class.");
  }
  names_.shrink_to_fit();
  ends_.shrink_to_fit();
}

PictureList PictureList::flat(std::filesystem::path folder) {
  PictureList list;
  list.folder_ = std::move(folder);
  list.add_class("");
  return list;
}

PictureList PictureList::one(const std::filesystem::path& file) {
  if (!is_picture_name(file))
    throw Error(ErrorKind::kInvalidInput, "is no picture by its name", file.string(),
                fmt::format("Pictures are {} files.", picture_endings()));
  PictureList list;
  list.folder_ = file.parent_path();
  list.names_ = file.filename().native();
  list.ends_ = {list.names_.size()};
  list.class_names_ = {""};
  list.class_ends_ = {1};
  return list;
}

PictureList PictureList::labelled(fs::path folder, const std::vector<std::string>& names,
                                  std::vector<std::int64_t> labels, std::vector<std::string> class_names) {
  MUSTER_CHECK(names.size() == labels.size(), "a label for each picture");
  PictureList list;
  list.folder_ = std::move(folder);
  list.class_names_ = std::move(class_names);
  list.labels_ = std::move(labels);
  for (const std::string& name : names) {
    list.names_ += name;
    list.ends_.push_back(list.names_.size());
  }
  return list;
}

void PictureList::add_class(const std::string& name) {
  const fs::path folder = folder_ / name;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    const fs::file_type type = type_of(entry);
    if (type == fs::file_type::directory) {
      throw Error(ErrorKind::kInvalidInput, "is a folder inside a class; pictures lie at CLASS/FILE",
                  entry.path().string(), "Move its pictures up, or point path at the folder of the classes.");
    }
    if (type != fs::file_type::regular) continue;
    if (!is_picture_name(entry.path())) {
      ++left_out_[ending_of(entry.path())];
      continue;
    }
    names_ += entry.path().filename().native();
    ends_.push_back(names_.size());
  }
  if (ends_.size() == (class_ends_.empty() ? 0 : class_ends_.back())) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the class \"{}\" has no pictures", excerpt(name, 80)),
                folder.string(), fmt::format("Add {} files, or remove the folder.", picture_endings()));
  }
  class_names_.push_back(name);
  class_ends_.push_back(ends_.size());
}

std::int64_t PictureList::label(std::uint64_t id) const {
  MUSTER_CHECK(id < size(), "sample id beyond the data set");
  if (!labels_.empty()) return labels_[id];
  return std::upper_bound(class_ends_.begin(), class_ends_.end(), id) - class_ends_.begin();
}

std::filesystem::path PictureList::path(std::uint64_t id) const {
  const auto label = static_cast<std::size_t>(this->label(id));
  const std::uint64_t begin = id == 0 ? 0 : ends_[id - 1];
  const auto name = std::string_view(names_).substr(begin, ends_[id] - begin);
  return labels_.empty() ? folder_ / class_names_[label] / name : folder_ / name;
}

PictureFolder::PictureFolder(PictureList list, const PictureOptions& options, const Normalization& normalization)
    : list_(std::move(list)), options_(options) {
  const auto [width, height] = options.extent;
  if ((options.channels != 1 && options.channels != 3) || width == 0 || height == 0 ||
      width > options.limits.pixels / height) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("pictures cannot become {} x {} x {}", options.channels, height, width), {},
                "Choose 3 channels (colour) or 1 (grey), and a height and a width in pixels.");
  }
  if (options.random_window) {
    const double area = options.random_window->least_area;
    if (!(area > 0 && area <= 1)) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("cannot crop to {} of a picture's area", area), {},
                  "Choose a part above 0, up to 1.");
    }
  }
  MUSTER_CHECK(options.centre_part > 0 && options.centre_part <= 1, "a part of the picture");
  validate(normalization, options.channels);
  format_.extent = options.extent;
  for (std::size_t c = 0; c < normalization.mean.size(); ++c) {
    const double stddev = normalization.stddev[c];
    format_.scale.push_back(static_cast<float>(1.0 / (255.0 * stddev)));
    format_.shift.push_back(static_cast<float>(-normalization.mean[c] / stddev));
  }
  spec_.shape = {options.channels, height, width};
  spec_.classes = static_cast<std::int64_t>(list_.class_names().size());
  spec_.class_names = list_.class_names();
}

std::int64_t PictureFolder::read(std::uint64_t id, std::span<float> features) const {
  return read_window(id, std::nullopt, features);
}

std::int64_t PictureFolder::read_in_epoch(std::uint64_t id, std::uint64_t epoch, std::span<float> features) const {
  return read_window(id, epoch, features);
}

std::int64_t PictureFolder::read_window(std::uint64_t id, std::optional<std::uint64_t> epoch,
                                        std::span<float> features) const {
  const fs::path path = list_.path(id);
  const OpenFile file = open_for_reading(path);
  const DecoderOptions decoding{.channels = options_.channels, .where = path.string(), .limits = options_.limits};
  if (file.size > kMostFileBytes) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("a picture of {} is more than the {} that are allowed", human_bytes(file.size),
                            human_bytes(kMostFileBytes)),
                decoding.where, "Remove the file, or set data.on_bad_sample = \"skip\".");
  }
  const std::vector<std::byte> bytes = read_file(file, path);
  const auto decoder = open_picture(bytes, decoding);
  Window window;
  if (epoch && options_.random_window) {
    RandomStream draws({.seed = options_.seed, .purpose = Purpose::kAugmentation, .epoch = *epoch, .sample = id});
    window = random_window(decoder->extent(), options_.extent, *options_.random_window, draws);
  } else {
    window = centre_window(decoder->extent(), options_.extent, options_.centre_part);
  }
  read_resized(*decoder, window, format_, features);
  return list_.label(id);
}

Normalization measure_pictures(const PictureList& list, const PictureOptions& options,
                               std::span<const std::uint64_t> ids) {
  const auto channels = static_cast<std::size_t>(options.channels);
  // Unit scale: what read gives is the share of full intensity.
  const PictureFolder plain(list, options,
                            {.mean = std::vector<float>(channels, 0), .stddev = std::vector<float>(channels, 1)});
  std::vector<float> features(plain.spec().elements());
  const std::size_t plane = features.size() / channels;
  std::vector<double> sums(channels);
  std::vector<double> squares(channels);
  std::uint64_t pictures = 0;
  std::exception_ptr failure;
  for (const std::uint64_t id : ids) {
    try {
      plain.read(id, features);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kDamaged) throw;
      failure = std::current_exception();
      continue;
    }
    ++pictures;
    for (std::size_t c = 0; c < channels; ++c) {
      for (const float value : std::span(features).subspan(c * plane, plane)) {
        sums[c] += value;
        squares[c] += static_cast<double>(value) * value;
      }
    }
  }
  if (pictures == 0) std::rethrow_exception(failure);
  Normalization result;
  const double count = static_cast<double>(pictures) * static_cast<double>(plane);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / count;
    const double variance = squares[c] / count - mean * mean;
    result.mean.push_back(static_cast<float>(mean));
    // One grey level is 1/255: less than a hundredth of it is no variance but rounding.
    result.stddev.push_back(variance > 1.6e-9 ? static_cast<float>(std::sqrt(variance)) : 1.0F);
  }
  return result;
}

}  // namespace muster::data
