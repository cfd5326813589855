// Both libraries can be told to use less than the processor has, never more: so the least of those found is what all
// can have.
#include "muster/compute/math_kernels.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

namespace muster::compute {
namespace {

// From the least to the most. Names of OpenBLAS that are not here cannot be compared: other makers' among them.
constexpr std::array<std::string_view, 10> kBlasOrder{"Prescott",   "Core2",         "Penryn",  "Dunnington",
                                                      "Nehalem",    "Sandybridge",   "Haswell", "SkylakeX",
                                                      "Cooperlake", "SapphireRapids"};
constexpr std::array<std::string_view, 3> kAtenOrder{"DEFAULT", "AVX2", "AVX512"};

// The least of `found` by `order`; empty: one of them is not in it.
template <std::size_t Size>
std::string least_of(std::span<const std::string> found, const std::array<std::string_view, Size>& order) {
  auto least = order.end();
  for (const std::string& name : found) {
    const auto place = std::find(order.begin(), order.end(), name);
    if (place == order.end()) return {};
    least = std::min(least, place);
  }
  return least == order.end() ? std::string() : std::string(*least);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string remedy(const char* variable, const std::string& value) {
  return fmt::format("Set {}={} on all hosts before the job is started.", variable,
                     value.empty() ? "(the lesser that every processor has)" : value);
}

std::string in_words(const std::string& value) {
  return value.empty() ? "not known" : value;
}

}  // namespace

std::string remedy_for_torch() {
  return "Bits are promised for one LibTorch only: use the same on all hosts (muster bundle).";
}

std::string remedy_for_blas(std::span<const std::string> found) {
  return remedy("OPENBLAS_CORETYPE", least_of(found, kBlasOrder));
}

std::string remedy_for_aten(std::span<const std::string> found) {
  return remedy("ATEN_CPU_CAPABILITY", lower(least_of(found, kAtenOrder)));
}

std::vector<std::string> kernel_differences(const MathKernels& theirs, const std::string& there,
                                            const MathKernels& mine, const std::string& here) {
  std::vector<std::string> lines;
  const auto compare = [&](const char* what, const std::string& other, const std::string& own, const auto& remedy_of) {
    if (other == own) return;
    const std::array<std::string, 2> both{other, own};
    lines.push_back(fmt::format("{} {} on host {} and {} on host {}. {}", what, in_words(other), there, in_words(own),
                                here, remedy_of(std::span<const std::string>(both))));
  };
  compare("LibTorch is", theirs.torch, mine.torch, [](std::span<const std::string>) { return remedy_for_torch(); });
  compare("OpenBLAS's kernels are", theirs.blas, mine.blas, remedy_for_blas);
  compare("LibTorch's kernels are", theirs.aten, mine.aten, remedy_for_aten);
  return lines;
}

}  // namespace muster::compute
