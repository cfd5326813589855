// What several sources share: options that must be there, parts held out as test set, and checks that sets of one job
// are alike. Sources themselves know only their own files.
#include "muster/data/source_parts.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"

namespace muster::data {

std::filesystem::path required_path(const SourceOptions& options, std::string_view what) {
  if (options.path.empty()) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the data source \"{}\" needs a path", options.source), {},
                fmt::format("Set path to {}.", what));
  }
  return options.path;
}

void hold_out_test(Data& data, std::shared_ptr<const Dataset> all, const SourceOptions& options) {
  if (options.test_fraction <= 0) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("the data source \"{}\" has no test set here", options.source),
                options.path.string(), "Set data.test_path, or data.test_fraction above 0.");
  }
  const Split parts = split(std::move(all), options.test_fraction, options.seed);
  data.train = parts.train;
  data.test = parts.validation;
}

TrainingIds::TrainingIds(std::uint64_t samples, bool hold_out_test, bool hold_out_validation,
                         const SourceOptions& options)
    : size_(samples) {
  if (hold_out_test) {
    test_ = plan_split(size_, options.test_fraction, options.seed);
    size_ -= test_->held_out;
  }
  if (hold_out_validation) {
    validation_ = plan_split(size_, options.validation, options.seed);
    size_ -= validation_->held_out;
  }
}

std::uint64_t TrainingIds::operator()(std::uint64_t i) const {
  if (validation_) i = validation_->order(validation_->held_out + i);
  return test_ ? test_->order(test_->held_out + i) : i;
}

std::vector<std::uint64_t> TrainingIds::spread(std::uint64_t most) const {
  const std::uint64_t count = std::min(size_, most);
  std::vector<std::uint64_t> ids;
  ids.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    ids.push_back((*this)(i * (size_ / count) + i * (size_ % count) / count));  // i * size / count without overflow
  std::sort(ids.begin(), ids.end());
  return ids;
}

void check_same_samples(const SampleSpec& train, const SampleSpec& other, std::string_view name,
                        const std::filesystem::path& path) {
  if (train.shape == other.shape && train.target_shape == other.target_shape && train.classes == other.classes) return;
  throw Error(ErrorKind::kMismatch,
              fmt::format("training samples are {}, {} samples are {}", describe(train), name, describe(other)),
              path.string());
}

std::string describe(const SampleSpec& spec) {
  const char* const elements = spec.input == InputKind::kTokens ? " tokens" : "";
  const std::string shape = fmt::format("{}{}", fmt::join(spec.shape, "x"), elements);
  switch (spec.target) {
    case TargetKind::kClass:
      return fmt::format("{}, {} classes", shape, spec.classes);
    case TargetKind::kValues:
      return fmt::format("{}, {} to predict", shape,
                         spec.target_elements() == 1 ? "a value" : fmt::format("{} values", spec.target_elements()));
    case TargetKind::kTokens:
      return fmt::format("{}, vocabulary of {}", shape, spec.vocabulary);
  }
  return shape;
}

std::string describe(std::uint64_t train, std::uint64_t test, const SampleSpec& spec, std::string_view origin) {
  return fmt::format("{} training and {} test samples of {}, {}", train, test, describe(spec), origin);
}

}  // namespace muster::data
