// Finds the folders of the sets and opens each: all with the classes, the scale and the form of the training set,
// because a model knows no others.
#include "muster/data/picture_parts.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/augment/augmentation.h"
#include "muster/data/pictures/picture_folder.h"
#include "muster/data/pictures/picture_labels.h"
#include "muster/data/source_parts.h"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

// Evaluation after training on random windows: objects look as large as in training, on average.
constexpr double kCentrePart = 0.875;

constexpr std::uint64_t kMostMeasured = 256;  // pictures that the scale is measured on

bool is_folder(const fs::path& path) {
  std::error_code ignored;  // what cannot be looked at is no folder for us
  return fs::is_directory(path, ignored);
}

std::optional<fs::path> first_folder(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (is_folder(folder / name)) return folder / name;
  }
  return std::nullopt;
}

struct Folders {
  fs::path train;
  std::optional<fs::path> test;
  std::optional<fs::path> validation;

  // What the options name counts more.
  Folders with(const SourceOptions& options) const {
    Folders named = *this;
    if (!options.test_path.empty()) named.test = options.test_path;
    if (!options.validation_path.empty()) named.validation = options.validation_path;
    return named;
  }
};

// What the options name, else what stands beside train/. A validation folder without a test folder is the test set.
Folders find_folders(const fs::path& folder, const SourceOptions& options) {
  Folders found{.train = folder, .test = {}, .validation = {}};
  if (is_folder(folder / "train")) {
    found.train = folder / "train";
    found.test = first_folder(folder, {"test"});
    found.validation = first_folder(folder, {"val", "validation"});
    if (!found.test && options.test_path.empty()) std::swap(found.test, found.validation);
  }
  return found.with(options);
}

PictureOptions picture_options(const SourceOptions& options) {
  if (options.shape.size() != 3 ||
      std::any_of(options.shape.begin(), options.shape.end(), [](std::int64_t n) { return n < 1 || n > 65535; })) {
    throw Error(ErrorKind::kInvalidInput, "pictures need a shape of channels, height and width", {},
                "For instance shape = [3, 224, 224].");
  }
  PictureOptions pictures;
  pictures.channels = static_cast<int>(options.shape[0]);
  pictures.extent = {static_cast<std::uint32_t>(options.shape[2]), static_cast<std::uint32_t>(options.shape[1])};
  pictures.seed = options.seed;
  if (const auto area = parse_augmentation(options.augment).resized_crop_area) {
    pictures.random_window = RandomWindow{.least_area = *area};
    pictures.centre_part = kCentrePart;
  }
  return pictures;
}

void check_same_classes(const PictureList& train, const PictureList& test, const fs::path& folder) {
  if (train.class_names() == test.class_names()) return;
  for (const std::string& name : train.class_names()) {
    const auto& others = test.class_names();
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    throw Error(ErrorKind::kMismatch, fmt::format("the class \"{}\" has no folder here", name), folder.string());
  }
  throw Error(ErrorKind::kMismatch,
              fmt::format("has {} classes; the training pictures have {}", test.class_names().size(),
                          train.class_names().size()),
              folder.string());
}

// As a note, or nothing.
void note_left_out(const PictureList& list, const fs::path& folder, std::vector<std::string>& notes) {
  if (const std::string files = describe_left_out(list.left_out()); !files.empty())
    notes.push_back(fmt::format("{}: left out {}; pictures are {} files", folder.string(), files, picture_endings()));
}

bool is_labels_file(const fs::path& path, const SourceOptions& options) {
  return !options.labels.file.empty() && !is_folder(path) && !is_picture_name(path);
}

// Pictures of a set of its own: its folder, or a file of labels for pictures in the folder of the training set.
PictureList other_pictures(const fs::path& path, const PictureList& train, const SourceOptions& options,
                           BadSamples& bad) {
  if (is_labels_file(path, options)) return read_picture_labels(path, options.path, options, bad, train.class_names());
  PictureList others(path);
  check_same_classes(train, others, path);
  return others;
}

}  // namespace

Alike alike_pictures(const SourceOptions& options, const DataForm& form, const fs::path& path, BadSamples& bad) {
  Alike alike;
  std::optional<PictureList> list;
  if (is_labels_file(path, options)) {
    list = read_picture_labels(path, path.parent_path(), options, bad, form.spec.class_names);
  } else if (is_folder(path)) {
    for (const std::string& name : form.spec.class_names)
      alike.labelled = alike.labelled && is_folder(path / name);
    list = alike.labelled ? PictureList(path) : PictureList::flat(path);
    if (alike.labelled && list->class_names() != form.spec.class_names)
      throw Error(ErrorKind::kMismatch, "has folders of classes that the model does not know", path.string());
  } else {
    alike.labelled = false;
    list = PictureList::one(path);
  }
  note_left_out(*list, path, alike.notes);
  alike.samples = std::make_shared<PictureFolder>(std::move(*list), picture_options(options), form.normalization);
  return alike;
}

Data open_pictures(const SourceOptions& options) {
  const fs::path folder = required_path(options, "the folder that holds the classes");
  const PictureOptions pictures = picture_options(options);
  Data data;
  data.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
  const bool labelled = !options.labels.file.empty();
  const Folders folders =
      labelled ? Folders{.train = folder, .test = {}, .validation = {}}.with(options) : find_folders(folder, options);
  PictureList list = labelled ? read_picture_labels(options.labels.file, folder, options, *data.bad_samples)
                              : PictureList(folders.train);
  const auto other_list = [&](const std::optional<fs::path>& other) -> std::optional<PictureList> {
    if (!other) return std::nullopt;
    PictureList others = other_pictures(*other, list, options, *data.bad_samples);
    note_left_out(others, *other, data.notes);
    return others;
  };
  note_left_out(list, folders.train, data.notes);
  std::optional<PictureList> test = other_list(folders.test);
  std::optional<PictureList> validation = other_list(folders.validation);
  const TrainingIds ids(list.size(), !test, !validation && options.validation > 0, options);
  data.normalization =
      options.normalization ? *options.normalization : measure_pictures(list, pictures, ids.spread(kMostMeasured));
  auto all = std::make_shared<PictureFolder>(std::move(list), pictures, data.normalization);
  if (test) {
    data.train = all;
    data.test = std::make_shared<PictureFolder>(std::move(*test), pictures, data.normalization);
  } else {
    hold_out_test(data, all, options);
  }
  if (validation)
    data.validation = std::make_shared<PictureFolder>(std::move(*validation), pictures, data.normalization);
  data.description =
      describe(data.train->size(), data.test->size(), all->spec(),
               labelled ? fmt::format("from {} by the labels in {}", folder.string(), options.labels.file.string())
                        : fmt::format("from {}", folder.string()));
  return data;
}

}  // namespace muster::data
