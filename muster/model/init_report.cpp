// Compares names and shapes, and decides; copying comes later and cannot fail for a reason that this has not named.
// Counters (whole numbers of batches seen) may be missing, weights may not.
#include "muster/model/init_report.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/pattern.h"
#include "muster/base/text.h"

namespace muster::model {
namespace {

bool is_floating(Dtype dtype) {
  return dtype == Dtype::kF64 || dtype == Dtype::kF32 || dtype == Dtype::kF16 || dtype == Dtype::kBf16;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1FU;
  const std::uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero or below the normal numbers: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// "a, b, c and 7 more".
std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kShown, ", "), names.size() - kShown);
}

bool is_count(const std::string& name) {
  return name.ends_with("num_batches_tracked");
}

}  // namespace

bool InitReport::complete() const {
  return mismatched.empty() && !loaded.empty() && std::all_of(missing.begin(), missing.end(), is_count);
}

std::string InitReport::summary() const {
  std::string text = fmt::format("loaded {} of {} tensors", loaded.size(),
                                 loaded.size() + skipped.size() + missing.size() + mismatched.size());
  const auto count = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty()) text += fmt::format(", {} {}", names.size(), what);
  };
  count(skipped, "begun anew");
  count(missing, "missing");
  count(mismatched, "of another shape");
  count(unexpected, "not in the model");
  return text;
}

std::vector<std::string> InitReport::lines() const {
  std::vector<std::string> lines{summary()};
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (!names.empty()) lines.push_back(fmt::format("{}: {}", what, some(names)));
  };
  add(converted, "converted to float32");
  add(skipped, "begun anew");
  add(missing, "missing in the file");
  add(mismatched, "of another shape");
  add(unexpected, "in the file and not in the model");
  return lines;
}

InitReport compare_weights(const Weights& weights, std::span<const InitTarget> targets,
                           std::span<const std::string> skip) {
  std::vector<std::string> names;
  for (const InitTarget& target : targets)
    names.push_back(target.name);
  require_all_fit(skip, names, "model.init_skip");
  std::map<std::string_view, std::size_t> sources;
  for (std::size_t i = 0; i < weights.tensors.size(); ++i)
    sources[weights.tensors[i].name] = i;
  InitReport report;
  std::vector<bool> known(weights.tensors.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const InitTarget& target = targets[i];
    const auto found = sources.find(target.name);
    if (found != sources.end()) known[found->second] = true;
    if (fits_any(skip, target.name)) {
      report.skipped.push_back(target.name);
      continue;
    }
    if (found == sources.end()) {
      report.missing.push_back(target.name);
      continue;
    }
    const TensorView& source = weights.tensors[found->second];
    const bool same = source.dtype == target.dtype;
    if (source.shape != target.shape || (!same && !(is_floating(source.dtype) && target.dtype == Dtype::kF32))) {
      report.mismatched.push_back(fmt::format("{} ({} [{}] in the file, {} [{}] in the model)", target.name,
                                              to_string(source.dtype), fmt::join(source.shape, ", "),
                                              to_string(target.dtype), fmt::join(target.shape, ", ")));
      continue;
    }
    if (!same) report.converted.push_back(target.name);
    report.loaded.push_back({i, found->second});
  }
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!known[i]) report.unexpected.push_back(excerpt(weights.tensors[i].name, 80));
  }
  return report;
}

void copy_floats(const TensorView& from, std::span<float> to) {
  MUSTER_CHECK(from.data.size() == to.size() * bytes_of(from.dtype), "a tensor of another size");
  const auto convert = [&]<typename Raw>(Raw /*type*/, const auto& value_of) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      Raw raw;
      std::memcpy(&raw, from.data.data() + i * sizeof(Raw), sizeof(Raw));
      to[i] = value_of(raw);
    }
  };
  switch (from.dtype) {
    case Dtype::kF32:
      if (!to.empty()) std::memcpy(to.data(), from.data.data(), from.data.size());
      return;
    case Dtype::kF64:
      return convert(double{}, [](double value) { return static_cast<float>(value); });
    case Dtype::kF16:
      return convert(std::uint16_t{}, half_to_float);
    case Dtype::kBf16:
      return convert(std::uint16_t{},
                     [](std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); });
    default:
      MUSTER_CHECK(false, "a tensor that is not of a floating-point type");
  }
}

}  // namespace muster::model
