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

#include "muster/base/own_options.h"
#include "muster/base/shared_object.h"
#include "muster/data/bad_samples.h"
#include "muster/data/data_form.h"
#include "muster/data/dataset.h"
#include "muster/data/images.h"
#include "muster/data/label_options.h"
#include "muster/data/table_options.h"
#include "muster/data/text_options.h"

namespace muster::data {

class PieceDoor;  // piece_door.h

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
  std::filesystem::path test_path = {};             // a test set in a file or folder of its own
  std::filesystem::path validation_path = {};       // a validation set in one
  double test_fraction = 0.1;  // without one, in sources that have none: the part of the samples that is held out
  double validation = 0;       // without one: the part of the training samples that is held out
  BadSampleOptions bad_samples = {};
  TableOptions table = {};
  LabelOptions labels = {};
  TextOptions text = {};
  PartOfLibrary library = {};              // library: a source of the user's own (user_sources.h)
  OwnOptions own = {};                     // what it is told
  std::shared_ptr<PieceDoor> remote = {};  // packed: where shards are to be had that are not at `path`; empty: nowhere
};

struct Data {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
  std::shared_ptr<const Dataset> validation;  // empty: none is held out, and there is none in the files
  std::shared_ptr<BadSamples> bad_samples;    // what was skipped so far; never empty
  Normalization normalization;       // applied to both sets; empty where a source does not normalise (synthetic)
  DataForm form;                     // how the samples were made of the files
  std::string description;           // one line for people
  std::vector<std::string> notes{};  // what they should know beside it: files left out, values never seen
};

struct SourceInfo {
  std::string name;
  std::string help;     // one line
  std::string package;  // the Debian package that brings the data; empty for files of one's own
  std::string folder;   // where that package puts it
};

// In the order in which help pages list them.
std::vector<SourceInfo> sources();
std::vector<std::string> source_names();

// Opens the sets and checks that they fit together. A validation set that the files have of their own counts more than
// SourceOptions::validation. Reads whole files, those of packed sets and plain .npy files
// aside: call it once, at the start. Bad samples that show later are skipped, if they may be, by a Tolerant around each
// set. Throws Error{kInvalidInput} (unknown source, missing path, options that cannot be), kNotFound, kDamaged,
// kMismatch, kUnsupported, kIo or kResource, each naming the file.
Data open_source(const SourceOptions& options);

// What a library says of its source. Throws as open_source.
PartHelp user_source_help(const PartOfLibrary& part);

}  // namespace muster::data
