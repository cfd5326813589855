// By shape and not by name, since names differ from model to model:
// biases and the parameters of norms are vectors.
#include "muster/compute/exemption.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::compute {
namespace {

constexpr std::array<std::pair<std::string_view, Exemption>, 2> kRules{{
    {"none", Exemption::kNone},
    {"bias_and_norm", Exemption::kBiasAndNorm},
}};

}  // namespace

std::vector<std::string> exemption_names() {
  std::vector<std::string> names;
  for (const auto& rule : kRules)
    names.emplace_back(rule.first);
  return names;
}

Exemption parse_exemption(std::string_view name) {
  for (const auto& rule : kRules) {
    if (rule.first == name) return rule.second;
  }
  const std::vector<std::string> names = exemption_names();
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("unknown rule of exemption \"{}\"{}", name, did_you_mean(name, names)), "",
              fmt::format("use one of {}", join_words(names)));
}

std::string_view to_string(Exemption rule) {
  for (const auto& known : kRules) {
    if (known.second == rule) return known.first;
  }
  MUSTER_CHECK(false, "a rule of exemption without a name");
}

bool is_exempt(Exemption rule, const model::TensorSlot& tensor) {
  return rule == Exemption::kBiasAndNorm && tensor.shape.size() <= 1;
}

}  // namespace muster::compute
