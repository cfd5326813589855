#include "muster/data/source_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/data/subset.h"

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
