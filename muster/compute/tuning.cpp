// Patterns in, numbers out: nothing here knows a module. Everything is checked against the names of the model once, at
// the start, so that a pattern which fits nothing is a mistake and not a silent no.
#include "muster/compute/tuning.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::compute {
namespace {

const NumberedPattern* last_fitting(std::span<const NumberedPattern> patterns, std::string_view name) {
  const auto found = std::find_if(patterns.rbegin(), patterns.rend(),
                                  [&](const NumberedPattern& entry) { return fits(entry.pattern, name); });
  return found == patterns.rend() ? nullptr : &*found;
}

std::vector<std::string> patterns_of(std::span<const NumberedPattern> entries) {
  std::vector<std::string> patterns;
  for (const NumberedPattern& entry : entries)
    patterns.push_back(entry.pattern);
  return patterns;
}

}  // namespace

std::vector<NumberedPattern> parse_unfreeze(std::span<const std::string> texts) {
  std::vector<NumberedPattern> entries;
  for (const std::string& text : texts) {
    constexpr double kMost = 1e9;
    entries.push_back(parse_numbered_pattern(text));
    const double epochs = entries.back().number;
    if (epochs < 1 || epochs > kMost || epochs != std::floor(epochs)) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" has no whole number of epochs of at least 1", text), {},
                  "\"layer4.*=2\" lets it train once 2 epochs are finished.");
    }
  }
  return entries;
}

std::vector<NumberedPattern> parse_lr_factors(std::span<const std::string> texts) {
  std::vector<NumberedPattern> entries;
  for (const std::string& text : texts) {
    entries.push_back(parse_numbered_pattern(text));
    if (entries.back().number <= 0) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" has no factor above 0", text), {},
                  "What is not to train at all belongs into model.freeze.");
    }
  }
  return entries;
}

std::uint64_t frozen_epochs(const Tuning& tuning, std::string_view name) {
  if (!fits_any(tuning.freeze, name)) return 0;
  const NumberedPattern* const until = last_fitting(tuning.unfreeze, name);
  return until == nullptr ? kFrozenForever : static_cast<std::uint64_t>(until->number);
}

double lr_factor(const Tuning& tuning, std::string_view name) {
  const NumberedPattern* const entry = last_fitting(tuning.lr_factors, name);
  return entry == nullptr ? 1 : entry->number;
}

double decay_factor(const Tuning& tuning, std::string_view name) {
  const NumberedPattern* const entry = last_fitting(tuning.decay_factors, name);
  return entry == nullptr ? 1 : entry->number;
}

void check_tuning(const Tuning& tuning, std::span<const std::string> parameters, std::span<const std::string> buffers) {
  std::vector<std::string> all(parameters.begin(), parameters.end());
  all.insert(all.end(), buffers.begin(), buffers.end());
  require_all_fit(tuning.freeze, all, "model.freeze");
  require_all_fit(patterns_of(tuning.lr_factors), parameters, "optimizer.lr_factors");
  require_all_fit(patterns_of(tuning.decay_factors), parameters, "decay_factors");
  for (const NumberedPattern& entry : tuning.lr_factors) {
    if (!(entry.number > 0) || !std::isfinite(entry.number))
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} for \"{}\" is no rate", entry.number, entry.pattern),
                  "optimizer.lr_factors", "What is not to train at all is frozen.");
  }
  for (const NumberedPattern& entry : tuning.decay_factors) {
    if (!(entry.number >= 0) || !std::isfinite(entry.number))
      throw Error(ErrorKind::kInvalidInput, fmt::format("{} for \"{}\" is no factor", entry.number, entry.pattern),
                  "decay_factors", "Use 0 for no weight decay, or what it is to be multiplied by.");
  }
  std::vector<std::string> frozen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(frozen),
               [&](const std::string& name) { return fits_any(tuning.freeze, name); });
  for (const NumberedPattern& entry : tuning.unfreeze) {
    if (std::none_of(frozen.begin(), frozen.end(), [&](const std::string& name) { return fits(entry.pattern, name); }))
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" fits nothing that model.freeze names", entry.pattern),
                  "model.unfreeze");
  }
  if (!tuning.freeze.empty() && std::all_of(parameters.begin(), parameters.end(),
                                            [&](const std::string& name) { return frozen_epochs(tuning, name) > 0; })) {
    throw Error(ErrorKind::kInvalidInput, "no parameter is left to train in the first epoch", "model.freeze");
  }
}

}  // namespace muster::compute
