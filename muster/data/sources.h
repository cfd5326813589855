// Sources: the data sets a job file can name.
//
// A new format is a reader of its own file and one entry in the table of sources.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/dataset.h"
#include "muster/data/images.h"

namespace muster::data {

struct SourceOptions {
  std::string source = {};                        // a name that sources() lists
  std::filesystem::path path = {};                // folder of the files; empty: the source's own place, if it has one
  std::vector<std::string> augment = {};          // steps for training samples (augment/augmentation.h)
  std::vector<std::int64_t> shape = {3, 32, 32};  // synthetic and pictures; the next four are of synthetic only
  std::int64_t classes = 10;
  std::uint64_t samples = 50000;
  std::uint64_t test_samples = 10000;
  std::uint64_t seed = 0;
  std::optional<Normalization> normalization = {};  // empty: measured on the training set
};

struct Data {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  Normalization normalization;  // applied to both sets; empty where a source does not normalise (synthetic)
  std::string description;      // one line for people
};

struct SourceInfo {
  std::string name;
  std::string help;  // one line
};

// In the order in which help pages list them.
std::vector<SourceInfo> sources();

// Opens both sets and checks that they fit together. Reads whole files: call it once, at the start.
// Throws Error{kInvalidInput} (unknown source, missing path, options that cannot be), kNotFound, kDamaged,
// kMismatch, kUnsupported, kIo or kResource, each naming the file.
Data open_source(const SourceOptions& options);

}  // namespace muster::data
