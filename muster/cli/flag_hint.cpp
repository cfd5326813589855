// Looks at what the parser of flags refused and guesses what was meant, by the job file's own keys. It is asked only
// when the command has failed already.
#include "muster/cli/flag_hint.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kRenamedCommands{{{"models", "model list"}}};

// "job.epochs" for "epochs" or "job.epochs", if there is such a key.
std::string key_named(const std::string& word) {
  trainer::Job job;
  const Schema schema = trainer::job_schema(job);
  for (const Section& section : schema.sections()) {
    for (const Field& field : section.fields()) {
      const std::string key = fmt::format("{}.{}", section.name(), field.key());
      if (word == field.key() || word == key) return key;
    }
  }
  return {};
}

// Of "--set job.epochs=3 data.batch=8" and "--set job.epochs 3".
std::string set_hint(const std::vector<std::string>& arguments) {
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const bool after_set = arguments[i - 1] == "--set";
    if (word.find('.') == std::string::npos || key_named(word.substr(0, equals)).empty()) continue;
    if (after_set && equals == std::string::npos && i + 1 < arguments.size())
      return fmt::format("A key and its value are one word: --set {}={}", word, arguments[i + 1]);
    if (!after_set && equals != std::string::npos)
      return fmt::format("Every key has a --set of its own: --set {}", word);
  }
  return {};
}

}  // namespace

std::string flag_hint(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 3> kTakeSet{"train", "check", "chaos"};
  if (arguments.empty() || std::find(kTakeSet.begin(), kTakeSet.end(), arguments.front()) == kTakeSet.end()) return {};
  if (const std::string hint = set_hint(arguments); !hint.empty()) return hint;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) continue;
    const std::size_t equals = arguments[i].find('=');
    std::string word = arguments[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(word.begin(), word.end(), '-', '_');
    const std::string key = key_named(word);
    if (key.empty()) continue;
    std::string value = "...";
    if (equals != std::string::npos)
      value = arguments[i].substr(equals + 1);
    else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"))
      value = arguments[i + 1];
    return fmt::format("A key of the job is set with --set {}={}", key, value);
  }
  return {};
}

std::string renamed_command_hint(std::string_view word) {
  for (const auto& [was, is] : kRenamedCommands) {
    if (word == was) return fmt::format("muster {} is muster {} now, with the same flags.", was, is);
  }
  return {};
}

}  // namespace muster::cli
