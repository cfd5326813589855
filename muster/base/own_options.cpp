// A key is a field of a schema of its own, so that types, limits and messages are those of the job file. What was read
// without knowing the key is turned into its type here.
#include "muster/base/own_options.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

Field field_of(const OwnKey& key, OwnValue& value) {
  Field field = std::visit([&](auto& held) { return Field(key.name, &held, key.help); }, value);
  field.range(key.least, key.most).one_of(key.one_of);
  return field;
}

// Puts `given` into `value`, which keeps its type; false where that is another one. Integers are numbers too, and an
// empty array may be one of anything.
bool assign(const OwnValue& given, OwnValue& value) {
  return std::visit(
      [](const auto& from, auto& to) {
        using From = std::decay_t<decltype(from)>;
        using To = std::decay_t<decltype(to)>;
        if constexpr (std::is_same_v<From, To>) {
          to = from;
          return true;
        } else if constexpr (std::is_same_v<From, std::int64_t> && std::is_same_v<To, double>) {
          to = static_cast<double>(from);
          return true;
        } else if constexpr (std::is_same_v<From, std::vector<std::int64_t>> &&
                             std::is_same_v<To, std::vector<double>>) {
          to.assign(from.begin(), from.end());
          return true;
        } else if constexpr (requires {
                               from.front();
                               to.front();
                             }) {
          // Two texts would have been the same type; a text is no array.
          if (std::is_same_v<From, std::string> || std::is_same_v<To, std::string> || !from.empty()) return false;
          to.clear();
          return true;
        } else {
          return false;
        }
      },
      given, value);
}

std::string found_text(OwnValue given) {
  const Field field = field_of({}, given);
  return fmt::format("found {} ({})", excerpt(field.to_toml().value_or(""), 60), field.type_name());
}

}  // namespace

OwnOptions complete_options(std::span<const OwnKey> keys, const OwnOptions& given, const std::string& section,
                            const std::string& owner) {
  std::vector<std::string> names;
  for (const OwnKey& key : keys)
    names.push_back(key.name);
  for (const auto& [name, value] : given.values()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(ErrorKind::kInvalidInput, fmt::format("{} has no such option{}", owner, did_you_mean(name, names)),
                section + "." + name,
                names.empty() ? "It has none: remove it." : fmt::format("It has {}.", join_words(names)));
  }
  OwnValues values;
  for (const OwnKey& key : keys) {
    OwnValue value = key.standard;
    const auto found = given.values().find(key.name);
    if (found != given.values().end()) {
      const bool fits = assign(found->second, value);
      const Field field = field_of(key, value);
      const std::string wrong = fits ? field.violation() : found_text(found->second);
      if (!wrong.empty())
        throw Error(ErrorKind::kInvalidInput, wrong, section + "." + key.name,
                    fmt::format("Expected {}: {}", field.allowed(), key.help));
    }
    values.emplace(key.name, std::move(value));
  }
  return OwnOptions(std::move(values));
}

std::string describe(const OwnKey& key) {
  OwnValue value = key.standard;
  const Field field = field_of(key, value);
  return fmt::format("{}: {}; {} if not set. {}", key.name, field.allowed(), field.to_toml().value_or(""), key.help);
}

}  // namespace muster
