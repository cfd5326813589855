// The table of sources, and those that are too small for a file of their own. A name of a job file leads to a row;
// everything else about a source is behind it.
#include "muster/data/sources.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/augment/augmentation.h"
#include "muster/data/cifar10.h"
#include "muster/data/idx.h"
#include "muster/data/image_dataset.h"
#include "muster/data/picture_parts.h"
#include "muster/data/source_parts.h"
#include "muster/data/synthetic.h"
#include "muster/data/tolerant.h"

namespace muster::data {
namespace {

constexpr std::string_view kFashionMnistFolder = "/usr/share/datasets/fashion-mnist";

std::filesystem::path required_folder(const SourceOptions& options) {
  return required_path(options, "the folder that holds the files");
}

// Where the images of the two sets are, for people.
struct Origins {
  std::filesystem::path train;
  std::filesystem::path test;
};

Data from_images(const SourceOptions& options, Images train, Images test, const std::filesystem::path& folder,
                 const Origins& origins) {
  const auto extents = [](const Images& images) { return std::array{images.channels, images.height, images.width}; };
  if (extents(train) != extents(test)) {
    throw Error(ErrorKind::kMismatch,
                fmt::format("the training images are {}, the test images are {}", fmt::join(extents(train), "x"),
                            fmt::join(extents(test), "x")),
                folder.string());
  }
  Data data;
  data.normalization = options.normalization ? *options.normalization : measure(train);
  data.train = std::make_shared<ImageDataset>(std::move(train), data.normalization, origins.train.string());
  data.test = std::make_shared<ImageDataset>(std::move(test), data.normalization, origins.test.string());
  data.description =
      describe(data.train->size(), data.test->size(), data.train->spec(), fmt::format("from {}", folder.string()));
  return data;
}

// The file of the given name in the folder, or its compressed form.
std::filesystem::path find_idx(const std::filesystem::path& folder, std::string_view name) {
  const std::filesystem::path plain = folder / name;
  for (const char* suffix : {"", ".gz", ".zst"}) {
    std::filesystem::path path = plain;
    path += suffix;
    std::error_code ignored;  // a folder that cannot be searched holds nothing for us
    if (std::filesystem::exists(path, ignored)) return path;
  }
  throw Error(ErrorKind::kNotFound, "there is no such file, plain, with .gz or with .zst", plain.string());
}

Data open_idx_folder(const SourceOptions& options, const std::filesystem::path& folder) {
  // All names are looked up before any file is read: what is missing shows at once.
  const auto train_images = find_idx(folder, "train-images-idx3-ubyte");
  const auto train_labels = find_idx(folder, "train-labels-idx1-ubyte");
  const auto test_images = find_idx(folder, "t10k-images-idx3-ubyte");
  const auto test_labels = find_idx(folder, "t10k-labels-idx1-ubyte");
  Images train = read_idx_images(train_images, train_labels);
  Images test = read_idx_images(test_images, test_labels, train.classes);
  return from_images(options, std::move(train), std::move(test), folder, {train_images, test_images});
}

}  // namespace

Images read_idx_train(const std::filesystem::path& folder, std::int64_t classes) {
  return read_idx_images(find_idx(folder, "train-images-idx3-ubyte"), find_idx(folder, "train-labels-idx1-ubyte"),
                         classes);
}

Images read_idx_test(const std::filesystem::path& folder, std::int64_t classes) {
  return read_idx_images(find_idx(folder, "t10k-images-idx3-ubyte"), find_idx(folder, "t10k-labels-idx1-ubyte"),
                         classes);
}

namespace {

Data open_idx(const SourceOptions& options) {
  return open_idx_folder(options, required_folder(options));
}

Data open_fashion_mnist(const SourceOptions& options) {
  try {
    return open_idx_folder(options, options.path.empty() ? kFashionMnistFolder : options.path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(error.kind(), error.message(), error.where(),
                "Install Fashion-MNIST with: apt-get install dataset-fashion-mnist (or set path to a folder "
                "that holds it).");
  }
}

Data open_cifar10(const SourceOptions& options) {
  const std::filesystem::path folder = required_folder(options);
  Images train = read_cifar10_train(folder);
  Images test = read_cifar10_test(folder);
  return from_images(options, std::move(train), std::move(test), folder,
                     {folder / "data_batch", folder / "test_batch"});
}

Data open_synthetic(const SourceOptions& options) {
  if (options.normalization && *options.normalization != Normalization{}) {
    throw Error(ErrorKind::kInvalidInput, "synthetic data is normalised already", {}, "Leave the normalization out.");
  }
  SyntheticOptions train{
      .shape = options.shape, .classes = options.classes, .samples = options.samples, .seed = options.seed};
  SyntheticOptions test = train;
  test.samples = options.test_samples;
  test.first_sample = options.samples;
  Data data;
  data.train = std::make_shared<Synthetic>(train);
  data.test = std::make_shared<Synthetic>(test);
  data.description = describe(options.samples, options.test_samples, data.train->spec(),
                              fmt::format("computed from seed {}", options.seed));
  return data;
}

// Decorates the training set with the steps that the source has not done itself.
void augment_training(Data& data, const SourceOptions& options) {
  if (options.augment.empty()) return;
  const Augmentation augmentation = parse_augmentation(options.augment);
  if (augmentation.resized_crop_area && options.source != "pictures") {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("random-resized-crop is for pictures, not for the source \"{}\"", options.source), {},
                "Use crop:N instead.");
  }
  data.train = std::make_shared<Augmented>(data.train, augmentation, data.normalization, options.seed);
}

struct Source {
  std::string_view name;
  std::string_view help;
  Data (*open)(const SourceOptions&);
  std::string_view package = {};
  std::string_view folder = {};
};

constexpr std::array kSources{
    Source{"fashion-mnist", "Fashion-MNIST as Debian's dataset-fashion-mnist installs it; no path needed",
           open_fashion_mnist, "dataset-fashion-mnist", kFashionMnistFolder},
    Source{"idx", "a folder with MNIST's four files (train-images-idx3-ubyte ...), plain, .gz or .zst", open_idx},
    Source{"cifar10", "a folder with CIFAR-10's binary files (data_batch_1.bin ... test_batch.bin)", open_cifar10},
    Source{"pictures",
           "a folder CLASS/FILE of JPEG, PNG, WebP and BMP files of any size, one with train/ and test/, or with CSV "
           "labels",
           open_pictures},
    Source{"csv", "a table: numeric and categorical columns and a target; plain, gzip or zstd", open_table},
    Source{"numpy", "arrays x and y in a .npz file, or in a folder as .npy files", open_arrays},
    Source{"text", "a text file, or a folder of them, for character and byte models", open_text},
    Source{"packed", "shards that muster data pack wrote, for sets larger than memory", open_packed},
    Source{"library", "a source of your own, from a shared object (data.library, data.name)", open_user_source},
    Source{"synthetic", "computed samples of any shape, classes and number; learnable, for benchmarks", open_synthetic},
};

}  // namespace

std::vector<SourceInfo> sources() {
  std::vector<SourceInfo> list;
  for (const Source& source : kSources) {
    list.push_back(
        {std::string(source.name), std::string(source.help), std::string(source.package), std::string(source.folder)});
  }
  return list;
}

std::vector<std::string> source_names() {
  std::vector<std::string> names;
  for (const Source& source : kSources)
    names.emplace_back(source.name);
  return names;
}

Data open_source(const SourceOptions& options) {
  for (const Source& source : kSources) {
    if (source.name != options.source) continue;
    Data data = source.open(options);
    data.form.spec = data.train->spec();
    data.form.normalization = data.normalization;
    augment_training(data, options);
    if (!data.validation && options.validation > 0) {
      const Split parts = split(data.train, options.validation, options.seed);
      data.train = parts.train;
      data.validation = parts.validation;
    }
    // Last: what stands for a bad sample must come from the same set.
    if (!data.bad_samples) data.bad_samples = std::make_shared<BadSamples>(options.bad_samples);
    if (data.bad_samples->skipping()) {
      for (auto* set : {&data.train, &data.test, &data.validation}) {
        if (*set) *set = std::make_shared<Tolerant>(*set, data.bad_samples);
      }
    }
    return data;
  }
  const std::vector<std::string> names = source_names();
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("unknown data source \"{}\"{}", options.source, did_you_mean(options.source, names)), {},
              fmt::format("Sources are {}.", join_words(names)));
}

}  // namespace muster::data
