// The words of job files: the name of a way, or several with the steps that each lasts and a last one without
// ("asp:200, bsp"). Pure functions.
#include "muster/strategies/parameter_server/consistency.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::strategies {
namespace {

constexpr std::array kConsistencies{Consistency::kBsp, Consistency::kAsp, Consistency::kSsp, Consistency::kBackup};

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is no consistency", text), {},
              "Write a name, or names with their steps and a last one without: \"asp:200, bsp\".");
}

}  // namespace

std::string_view to_string(Consistency consistency) {
  switch (consistency) {
    case Consistency::kBsp:
      return "bsp";
    case Consistency::kAsp:
      return "asp";
    case Consistency::kSsp:
      return "ssp";
    case Consistency::kBackup:
      return "backup";
  }
  return "unknown";
}

std::vector<std::string> consistency_names() {
  std::vector<std::string> names;
  for (const Consistency consistency : kConsistencies)
    names.emplace_back(to_string(consistency));
  return names;
}

Consistency parse_consistency(std::string_view name) {
  for (const Consistency consistency : kConsistencies) {
    if (to_string(consistency) == name) return consistency;
  }
  const std::vector<std::string> names = consistency_names();
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("no consistency \"{}\"{}", name, did_you_mean(std::string(name), names)), {},
              fmt::format("There are {}.", join_words(names)));
}

std::vector<Phase> parse_phases(std::string_view text) {
  std::vector<Phase> phases;
  std::uint64_t step = 0;
  std::string_view rest = text;
  for (bool last = false; !last;) {
    const auto comma = rest.find(',');
    last = comma == std::string_view::npos;
    const std::string_view part = rest.substr(0, comma);
    if (!last) rest.remove_prefix(comma + 1);
    const auto colon = part.find(':');
    if (last != (colon == std::string_view::npos)) refuse(text);
    phases.push_back({step, parse_consistency(trimmed(part.substr(0, colon)))});
    if (last) break;
    const std::string_view digits = trimmed(part.substr(colon + 1));
    std::uint64_t steps = 0;
    const char* end = digits.data() + digits.size();
    if (digits.empty() || std::from_chars(digits.data(), end, steps).ptr != end || steps == 0 || steps > 1'000'000'000)
      refuse(text);
    step += steps;
  }
  return phases;
}

}  // namespace muster::strategies
