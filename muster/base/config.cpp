// One template for each thing that can be done with a value (name its type, print it, read it), over all types that a
// field may have. A new type of field is an overload of each.
#include "muster/base/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/base/toml_advice.h"
#include "muster/base/toml_text.h"
#include "muster/base/toml_value.h"

namespace muster {

std::optional<IntegerRange> parse_integer_range(std::string_view text) {
  IntegerRange range;
  const char* const end = text.data() + text.size();
  const auto least = std::from_chars(text.data(), end, range.least);
  if (least.ec != std::errc() || least.ptr == end || *least.ptr != ':') return std::nullopt;
  const auto most = std::from_chars(least.ptr + 1, end, range.most);
  if (most.ec != std::errc() || most.ptr != end) return std::nullopt;
  return range;
}
namespace {

constexpr std::size_t kShownBytes = 60;  // of a value or a name, in messages

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

template <typename T>
std::string name_of_type() {
  if constexpr (IsOptional<T>::value) {
    return name_of_type<typename T::value_type>();
  } else if constexpr (IsVector<T>::value) {
    return "array of " + name_of_type<typename T::value_type>() + "s";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return "integer";
  } else if constexpr (std::is_same_v<T, double>) {
    return "number";
  } else if constexpr (std::is_same_v<T, IntegerRange>) {
    return "integer, or a range as \"1:4\"";
  } else if constexpr (std::is_same_v<T, AutoInteger>) {
    return "\"auto\", or integer";
  } else if constexpr (std::is_same_v<T, NamedIntegers>) {
    return "table of integers";
  } else if constexpr (std::is_same_v<T, OwnOptions>) {
    return "table of options";
  } else {
    return "string";
  }
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool is_bare_key(std::string_view word) {
  return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                              std::string_view::npos;
}

// A TOML float: always with a point or an exponent, shortest text that reads back to the same bits.
std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string to_text(bool value) {
  return value ? "true" : "false";
}
std::string to_text(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string to_text(double value) {
  return number_text(value);
}
std::string to_text(const std::string& value) {
  return quote(value);
}
std::string to_text(const IntegerRange& value) {
  return value.least == value.most ? to_text(value.least) : fmt::format("\"{}:{}\"", value.least, value.most);
}
std::string to_text(const AutoInteger& value) {
  return value.automatic ? quote("auto") : to_text(value.value);
}
std::string to_text(const NamedIntegers& values) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values)
    parts.push_back(fmt::format("{} = {}", name, value));
  return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
}
template <typename T>
std::string to_text(const std::vector<T>& values) {
  constexpr std::size_t kLineBytes = 100;  // a long array takes several lines: toml_text.h refuses very long ones
  std::string text = "[";
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    if (text.size() - line_start > kLineBytes) {
      text.back() = '\n';
      line_start = text.size();
      text += "  ";
    }
    text += to_text(values[i]);
  }
  return text + "]";
}

std::string to_text(const OwnOptions& options) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : options.values()) {
    const std::string key = is_bare_key(name) ? name : quote(name);
    parts.push_back(std::visit([&](const auto& held) { return fmt::format("{} = {}", key, to_text(held)); }, value));
  }
  return parts.empty() ? "{}" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
}

// What stands in the file, for messages: `"abc" (a string)`. Long values are cut.
std::string found_text(const TomlValue& value) {
  struct Words {
    std::string operator()(bool flag) const { return fmt::format("{} (a boolean)", flag); }
    std::string operator()(std::int64_t number) const { return fmt::format("{} (an integer)", number); }
    std::string operator()(double number) const { return number_text(number) + " (a number)"; }
    std::string operator()(const std::string& text) const { return quote(excerpt(text, kShownBytes)) + " (a string)"; }
    std::string operator()(const TomlValue::Array& array) const { return fmt::format("an array of {}", array.size()); }
    std::string operator()(const TomlValue::Table& /*table*/) const { return "a table"; }
    std::string operator()(TomlMoment /*moment*/) const { return "a date or time"; }
  };
  return std::visit(Words(), value.data);
}

// Puts `value` into `out`; false when it is of another type.
template <typename T>
bool assign(const TomlValue& value, T& out) {
  const T* const found = value.get<T>();
  if (found != nullptr) out = *found;
  return found != nullptr;
}
bool assign(const TomlValue& value, double& out) {
  if (const auto* const integer = value.get<std::int64_t>()) {
    out = static_cast<double>(*integer);
    return true;
  }
  return assign<double>(value, out);
}
bool assign(const TomlValue& value, IntegerRange& out) {
  if (const auto* const integer = value.get<std::int64_t>()) {
    out = {*integer, *integer};
    return true;
  }
  const auto* const text = value.get<std::string>();
  const auto range = text != nullptr ? parse_integer_range(*text) : std::nullopt;
  if (range) out = *range;
  return range.has_value();
}
bool assign(const TomlValue& value, AutoInteger& out) {
  if (const auto* const integer = value.get<std::int64_t>()) {
    out = {false, *integer};
    return true;
  }
  out = {true, 0};
  const auto* const text = value.get<std::string>();
  return text != nullptr && *text == "auto";
}
bool assign(const TomlValue& value, NamedIntegers& out) {
  const auto* const table = value.get<TomlValue::Table>();
  if (table == nullptr) return false;
  NamedIntegers found;
  for (const TomlEntry& entry : *table) {
    if (!assign<std::int64_t>(entry.value, found[entry.key])) return false;
  }
  out = std::move(found);
  return true;
}
template <typename T>
bool assign(const TomlValue& value, std::vector<T>& out) {
  const auto* const array = value.get<TomlValue::Array>();
  if (array == nullptr) return false;
  std::vector<T> elements;
  for (const TomlValue& element : *array) {
    T item{};
    if (!assign(element, item)) return false;
    elements.push_back(std::move(item));
  }
  out = std::move(elements);
  return true;
}
// Of an array all elements have one type; which one an empty array has its reader knows.
std::optional<OwnValue> own_value(const TomlValue& value) {
  std::optional<OwnValue> found;
  const auto try_type = [&]<typename T>(T held) {
    if (!found && assign(value, held)) found = std::move(held);
  };
  try_type(bool());
  try_type(std::int64_t());
  try_type(double());
  try_type(std::string());
  try_type(std::vector<std::int64_t>());
  try_type(std::vector<double>());
  try_type(std::vector<std::string>());
  return found;
}
bool assign(const TomlValue& value, OwnOptions& out) {
  const auto* const table = value.get<TomlValue::Table>();
  if (table == nullptr) return false;
  OwnValues all = out.values();
  for (const TomlEntry& entry : *table) {
    std::optional<OwnValue> found = own_value(entry.value);
    if (!found) return false;
    all.insert_or_assign(entry.key, *std::move(found));
  }
  out = OwnOptions(std::move(all));
  return true;
}
template <typename T>
bool assign(const TomlValue& value, std::optional<T>& out) {
  T item{};
  if (!assign(value, item)) return false;
  out = std::move(item);
  return true;
}

// Why `value` is no T, for messages; REQUIRES: assign() refused it.
template <typename T>
std::string mismatch(const TomlValue& value) {
  if constexpr (IsOptional<T>::value) {
    return mismatch<typename T::value_type>(value);
  } else if constexpr (IsVector<T>::value) {
    if (const auto* const array = value.get<TomlValue::Array>()) {
      std::size_t position = 0;
      for (const TomlValue& element : *array) {
        ++position;
        typename T::value_type item{};
        if (!assign(element, item)) return fmt::format("element {} is {}", position, found_text(element));
      }
    }
  }
  if constexpr (std::is_same_v<T, OwnOptions>) {
    if (const auto* const table = value.get<TomlValue::Table>()) {
      for (const TomlEntry& entry : *table)
        if (!own_value(entry.value))
          return fmt::format("{} is {}", excerpt(entry.key, kShownBytes), found_text(entry.value));
    }
  }
  return "found " + found_text(value);
}

bool takes_text(const FieldTarget& target) {
  return std::holds_alternative<std::string*>(target) || std::holds_alternative<std::optional<std::string>*>(target);
}

// For a key that takes a text and was given a number or a boolean.
std::string advice_on_text(const TomlEntry& entry) {
  std::string text;
  if (const auto* const flag = entry.value.get<bool>())
    text = *flag ? "true" : "false";
  else if (const auto* const integer = entry.value.get<std::int64_t>())
    text = fmt::format("{}", *integer);
  else if (const auto* const number = entry.value.get<double>())
    text = number_text(*number);
  return text.empty() ? "" : fmt::format(" Text stands in quotes: {} = \"{}\".", entry.key, text);
}

std::string place(const TomlEntry& entry, const std::string& name) {
  return entry.value.line == 0 ? name : fmt::format("{}:{}", name, entry.value.line);
}

std::vector<std::string> keys_of(const std::deque<Field>& fields) {
  std::vector<std::string> keys;
  keys.reserve(fields.size());
  for (const Field& field : fields)
    keys.push_back(field.key());
  return keys;
}

// The parser says what it did not find; people want to know what to write.
TomlValue parse_with_advice(std::string_view text, const std::string& name) {
  try {
    return parse_toml(text, name);
  } catch (const Error& error) {
    std::uint64_t line = 0;
    const std::string_view where = error.where();
    if (where.starts_with(name + ":"))
      std::from_chars(where.data() + name.size() + 1, where.data() + where.size(), line);
    if (line == 0 || !error.remedy().empty()) throw;
    throw Error(error.kind(), error.message(), error.where(), toml_advice(text, line));
  }
}

}  // namespace

Field::Field(std::string key, FieldTarget target, std::string help)
    : key_(std::move(key)), target_(target), help_(std::move(help)), default_(to_toml()) {
}

Field& Field::range(double least, double most) {
  least_ = least;
  most_ = most;
  return *this;
}

Field& Field::above(double limit) {
  least_ = limit;
  least_is_open_ = true;
  return *this;
}

Field& Field::one_of(std::vector<std::string> values) {
  choices_ = std::move(values);
  return *this;
}

Field& Field::non_empty() {
  non_empty_ = true;
  return *this;
}

std::string Field::type_name() const {
  return std::visit([](auto* target) { return name_of_type<std::remove_pointer_t<decltype(target)>>(); }, target_);
}

std::string Field::allowed() const {
  if (!choices_.empty()) {
    std::vector<std::string> names;
    for (const std::string& choice : choices_)
      names.push_back(quote(choice));
    if (std::holds_alternative<NamedIntegers*>(target_))
      return fmt::format("table of integers: {}", fmt::join(choices_, ", "));
    const bool array = type_name().rfind("array", 0) == 0;
    return (array ? "array of: " : "one of ") + fmt::format("{}", fmt::join(names, ", "));
  }
  std::string text = type_name();
  if (non_empty_) text = "non-empty " + text;
  const bool has_least = std::isfinite(least_);
  const bool has_most = std::isfinite(most_);
  if (has_least && least_is_open_) {
    text += fmt::format(", greater than {}", least_);
    if (has_most) text += fmt::format(" and at most {}", most_);
  } else if (has_least && has_most) {
    text += fmt::format(", {} to {}", least_, most_);
  } else if (has_least) {
    text += fmt::format(", {} or more", least_);
  } else if (has_most) {
    text += fmt::format(", at most {}", most_);
  }
  return text;
}

std::optional<std::string> Field::to_toml() const {
  return std::visit(
      [](auto* target) -> std::optional<std::string> {
        if constexpr (IsOptional<std::remove_pointer_t<decltype(target)>>::value) {
          if (!target->has_value()) return std::nullopt;
          return to_text(**target);
        } else {
          return to_text(*target);
        }
      },
      target_);
}

std::string Field::violation() const {
  const auto check = [this](const auto& self, const auto& value) -> std::string {
    using T = std::decay_t<decltype(value)>;
    if constexpr (IsOptional<T>::value) {
      return value ? self(self, *value) : std::string();
    } else if constexpr (IsVector<T>::value) {
      if (non_empty_ && value.empty()) return "the array is empty";
      for (const auto& element : value) {
        if (std::string text = self(self, element); !text.empty()) return text;
      }
      return {};
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (non_empty_ && value.empty()) return "the text is empty";
      if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), value) == choices_.end()) {
        return fmt::format("found {}{}", quote(excerpt(value, kShownBytes)), did_you_mean(value, choices_));
      }
      return {};
    } else if constexpr (std::is_same_v<T, NamedIntegers>) {
      for (const auto& [name, number] : value) {
        if (!choices_.empty() && std::find(choices_.begin(), choices_.end(), name) == choices_.end())
          return fmt::format("has no {}{}", quote(excerpt(name, kShownBytes)), did_you_mean(name, choices_));
        if (std::string text = self(self, number); !text.empty()) return fmt::format("{}: {}", name, text);
      }
      return {};
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, OwnOptions>) {
      return {};
    } else if constexpr (std::is_same_v<T, IntegerRange>) {
      if (value.least > value.most) return fmt::format("found {}, which begins above its end", to_text(value));
      return self(self, value.least).empty() && self(self, value.most).empty()
                 ? std::string()
                 : fmt::format("found {}", to_text(value));
    } else if constexpr (std::is_same_v<T, AutoInteger>) {
      return value.automatic ? std::string() : self(self, value.value);
    } else {
      const auto number = static_cast<double>(value);
      const bool low = least_is_open_ ? number <= least_ : number < least_;
      const bool limited = std::isfinite(least_) || std::isfinite(most_);
      if (limited && (!std::isfinite(number) || low || number > most_)) return fmt::format("found {}", to_text(value));
      return {};
    }
  };
  return std::visit([&](auto* target) { return check(check, *target); }, target_);
}

Field& Section::field(std::string key, FieldTarget target, std::string help) {
  return fields_.emplace_back(std::move(key), target, std::move(help));
}

Field* Section::find(std::string_view key) {
  const auto found = std::ranges::find(fields_, key, &Field::key);
  return found == fields_.end() ? nullptr : &*found;
}

Section& Schema::section(std::string name, std::string help) {
  return sections_.emplace_back(std::move(name), std::move(help));
}

Section* Schema::find_section(std::string_view name) {
  const auto found =
      std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return s.name() == name; });
  return found == sections_.end() ? nullptr : &*found;
}

void Schema::load_file(const std::filesystem::path& path) {
  load_text(read_text(path, kLargestToml), path.string());
}

void Schema::load_text(std::string_view text, const std::string& name) {
  file_ = name;
  const TomlValue document = parse_with_advice(text, name);
  for (const TomlEntry& table : *document.get<TomlValue::Table>()) {
    const std::string section_name = excerpt(table.key, kShownBytes);
    Section* section = find_section(table.key);
    if (section == nullptr) {
      std::vector<std::string> names;
      for (const Section& known : sections_)
        names.push_back(known.name());
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("[{}] is not a section{}", section_name, did_you_mean(table.key, names)),
                  place(table, name), fmt::format("Sections are {}.", join_words(names)));
    }
    const auto* const keys_and_values = table.value.get<TomlValue::Table>();
    if (keys_and_values == nullptr) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("{} is {}, not a section", section_name, found_text(table.value)), place(table, name),
                  fmt::format("Write [{}] on a line of its own, and its keys below.", section_name));
    }
    for (const TomlEntry& entry : *keys_and_values) {
      const std::string path = fmt::format("{}.{}", section_name, excerpt(entry.key, kShownBytes));
      const std::string where = place(entry, name);
      Field* const field = section->find(entry.key);
      if (field == nullptr) {
        const std::vector<std::string> keys = keys_of(section->fields_);
        throw Error(ErrorKind::kInvalidInput, fmt::format("{} is not a key{}", path, did_you_mean(entry.key, keys)),
                    where, fmt::format("Keys of [{}] are {}.", section_name, join_words(keys)));
      }
      const std::string expected =
          fmt::format("Expected {}.{}", field->allowed(), takes_text(field->target_) ? advice_on_text(entry) : "");
      std::visit(
          [&](auto* target) {
            if (assign(entry.value, *target)) return;
            throw Error(ErrorKind::kInvalidInput,
                        fmt::format("{}: {}", path, mismatch<std::decay_t<decltype(*target)>>(entry.value)), where,
                        expected);
          },
          field->target_);
      field->where_ = where;
      if (std::holds_alternative<OwnOptions*>(field->target_)) {
        for (const TomlEntry& inner : *entry.value.get<TomlValue::Table>())
          field->inner_places_[inner.key] = place(inner, name);
      }
      if (const std::string violation = field->violation(); !violation.empty())
        throw Error(ErrorKind::kInvalidInput, fmt::format("{}: {}", path, violation), where, expected);
    }
  }
}

void Schema::set(const std::string& assignment) {
  const std::string name = "--set " + excerpt(assignment, 200);
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 || dot + 1 == equals) {
    throw Error(ErrorKind::kInvalidInput, "not of the form section.key=value", name, "For example --set job.epochs=3.");
  }
  const std::string section = assignment.substr(0, dot);
  const std::string key = assignment.substr(dot + 1, equals - dot - 1);
  Section* const known = find_section(section);
  Field* const whole = known == nullptr ? nullptr : known->find(key.substr(0, key.find('.')));
  const bool inner = whole != nullptr && std::holds_alternative<OwnOptions*>(whole->target_) &&
                     key.size() > whole->key().size() && is_bare_key(key.substr(whole->key().size() + 1));
  if (!is_bare_key(section) || (!is_bare_key(key) && !inner)) {
    throw Error(ErrorKind::kInvalidInput, "not of the form section.key=value", name, "For example --set job.epochs=3.");
  }
  std::string value = assignment.substr(equals + 1);
  // Shells take quotes away: what looks like a number is a text where one belongs.
  const bool quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  if (whole != nullptr && !quoted && takes_text(whole->target_)) value = quote(value);
  const std::string file = file_;
  std::string text = fmt::format("[{}]\n{} = {}\n", section, key, value);
  try {
    if (value.find('\n') != std::string::npos) throw Error(ErrorKind::kInvalidInput, "several lines");
    parse_toml(text, name);
  } catch (const Error&) {
    text = fmt::format("[{}]\n{} = {}\n", section, key, quote(value));
  }
  try {
    load_text(text, name);
  } catch (const Error& error) {
    // Lines inside the little document mean nothing to anyone.
    file_ = file;
    throw Error(error.kind(), error.message(), name, error.remedy());
  }
  file_ = file;
  whole->where_ = name;
  for (auto& [inner_key, at] : whole->inner_places_)
    if (at.starts_with(name + ":")) at = name;
}

const Field& Schema::find_field(std::string_view path) const {
  const std::size_t dot = path.find('.');
  MUSTER_CHECK(dot != std::string_view::npos, "a path is section.key");
  for (const Section& section : sections_) {
    if (section.name() != path.substr(0, dot)) continue;
    for (const Field& field : section.fields()) {
      if (field.key() == path.substr(dot + 1)) return field;
    }
  }
  MUSTER_CHECK(false, fmt::format("{} is no key of this schema", path));
}

std::string Schema::where(std::string_view path) const {
  return find_field(path).where_;
}

bool Schema::changed(std::string_view path) const {
  const Field& field = find_field(path);
  return field.to_toml() != field.default_;
}

Error Schema::invalid(std::string_view path, const std::string& message, const std::string& remedy) const {
  std::string place = where(path);
  if (place.empty()) place = file_;
  return Error(ErrorKind::kInvalidInput, fmt::format("{}: {}", path, message), std::move(place), remedy);
}

std::string Schema::to_toml() const {
  std::string text;
  for (const Section& section : sections_) {
    text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section.name());
    for (const Field& field : section.fields()) {
      const auto value = field.to_toml();
      text += value ? fmt::format("{} = {}\n", field.key(), *value) : fmt::format("# {} is not set\n", field.key());
    }
  }
  return text;
}

Json Schema::to_json() const {
  Json all = Json::object();
  for (const Section& section : sections_) {
    Json keys = Json::object();
    for (const Field& field : section.fields()) {
      std::visit(
          [&](auto* target) {
            using T = std::remove_pointer_t<decltype(target)>;
            if constexpr (std::is_same_v<T, std::optional<AutoInteger>>) {
              if (target->has_value()) keys[field.key()] = (*target)->automatic ? Json("auto") : Json((*target)->value);
            } else if constexpr (IsOptional<T>::value) {
              if (target->has_value()) keys[field.key()] = **target;
            } else if constexpr (std::is_same_v<T, IntegerRange>) {
              if (target->least == target->most)
                keys[field.key()] = target->least;
              else
                keys[field.key()] = fmt::format("{}:{}", target->least, target->most);
            } else if constexpr (std::is_same_v<T, OwnOptions>) {
              Json& options = keys[field.key()] = Json::object();
              for (const auto& option : target->values())
                std::visit([&](const auto& held) { options[option.first] = held; }, option.second);
            } else {
              keys[field.key()] = *target;
            }
          },
          field.target_);
    }
    all[section.name()] = std::move(keys);
  }
  return all;
}

std::string Schema::to_markdown() const {
  // A bar would start the next cell, a line break end the table.
  const auto cell = [](const std::string& words) {
    std::string out;
    for (const char c : words)
      out += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
    return out;
  };
  std::string text;
  for (const Section& section : sections_) {
    text += fmt::format("## [{}]\n\n{}\n\n| key | allowed | default | meaning |\n| --- | --- | --- | --- |\n",
                        section.name(), section.help());
    for (const Field& field : section.fields()) {
      const auto value = field.to_toml();
      text += fmt::format("| `{}` | {} | {} | {} |\n", field.key(), cell(field.allowed()),
                          value ? fmt::format("`{}`", cell(*value)) : "not set", cell(field.help()));
    }
    text += "\n";
  }
  return text;
}

}  // namespace muster
