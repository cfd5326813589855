// The sources that have files of their own, and what they share. For sources.cpp; others call open_source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/data/sources.h"
#include "muster/data/subset.h"

namespace muster::data {

// Each throws as open_source. Data::bad_samples may stay empty: open_source fills it.
Data open_table(const SourceOptions& options);
Data open_arrays(const SourceOptions& options);
Data open_text(const SourceOptions& options);
Data open_packed(const SourceOptions& options);
Data open_user_source(const SourceOptions& options);

// Of open_alike.h, for one source each; its checks are still to come.
struct Alike;
Alike alike_arrays(const DataForm& form, const std::filesystem::path& path, bool train);
Alike alike_text(const SourceOptions& options, const DataForm& form, const std::filesystem::path& path);
// What an array of targets (y, or y_train) looks like.
struct ArrayTargetLook {
  bool classes = false;    // one whole number a sample, and few different ones if they are floats
  std::int64_t width = 1;  // numbers of a sample
};
ArrayTargetLook look_at_targets(const std::filesystem::path& path);
// The images of a folder with MNIST's file names.
Images read_idx_train(const std::filesystem::path& folder, std::int64_t classes);
Images read_idx_test(const std::filesystem::path& folder, std::int64_t classes);

// The path of the options. Throws kInvalidInput if it is empty; `what` says what it should name.
std::filesystem::path required_path(const SourceOptions& options, std::string_view what);

// Holds out SourceOptions::test_fraction of `all`, as split() does. Throws kInvalidInput if it is 0.
void hold_out_test(Data& data, std::shared_ptr<const Dataset> all, const SourceOptions& options);

// Which samples of a file are left for training when open_source has held out what the options say: what scales may be
// measured on. A value.
class TrainingIds {
 public:
  // Throws as split().
  TrainingIds(std::uint64_t samples, bool hold_out_test, bool hold_out_validation, const SourceOptions& options);

  std::uint64_t size() const { return size_; }
  // REQUIRES: i < size().
  std::uint64_t operator()(std::uint64_t i) const;
  // At most `most` of them, evenly spread over the training set; rising.
  std::vector<std::uint64_t> spread(std::uint64_t most) const;

 private:
  std::uint64_t size_;
  std::optional<SplitPlan> test_;
  std::optional<SplitPlan> validation_;
};

// Throws kMismatch unless samples and targets of the two look alike. `name` is that of the other set.
void check_same_samples(const SampleSpec& train, const SampleSpec& other, std::string_view name,
                        const std::filesystem::path& path);

// "3x32x32 numbers, 10 classes".
std::string describe(const SampleSpec& spec);
std::string describe(std::uint64_t train, std::uint64_t test, const SampleSpec& spec, std::string_view origin);

}  // namespace muster::data
