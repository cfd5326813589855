#include "muster/base/config.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <type_traits>

#include <fmt/format.h>
#include <toml.hpp>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;
constexpr int kDeepest = 16;

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
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
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
template <typename T>
std::string to_text(const std::vector<T>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i > 0 ? ", " : "") + to_text(values[i]);
  return text + "]";
}

// What stands in the file, for messages: `"abc" (a string)`. Long values are cut.
std::string found_text(const toml::value& value) {
  std::ostringstream out;
  switch (value.type()) {
    case toml::value_t::boolean:
      out << (value.as_boolean() ? "true" : "false") << " (a boolean)";
      break;
    case toml::value_t::integer:
      out << value.as_integer() << " (an integer)";
      break;
    case toml::value_t::floating:
      out << number_text(value.as_floating()) << " (a number)";
      break;
    case toml::value_t::string: {
      const std::string& text = value.as_string().str;
      out << quote(text.size() > 60 ? text.substr(0, 60) + "..." : text) << " (a string)";
      break;
    }
    case toml::value_t::array:
      out << "an array of " << value.as_array().size();
      break;
    case toml::value_t::table:
      out << "a table";
      break;
    default:
      out << "a date or time";
      break;
  }
  return out.str();
}

bool assign(const toml::value& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.as_boolean();
  return true;
}
bool assign(const toml::value& value, std::int64_t& out) {
  if (!value.is_integer()) return false;
  out = value.as_integer();
  return true;
}
bool assign(const toml::value& value, double& out) {
  if (value.is_integer()) {
    out = static_cast<double>(value.as_integer());
    return true;
  }
  if (!value.is_floating()) return false;
  out = value.as_floating();
  return true;
}
bool assign(const toml::value& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.as_string().str;
  return true;
}
template <typename T>
bool assign(const toml::value& value, std::vector<T>& out) {
  if (!value.is_array()) return false;
  std::vector<T> elements;
  for (const toml::value& element : value.as_array()) {
    T item{};
    if (!assign(element, item)) return false;
    elements.push_back(std::move(item));
  }
  out = std::move(elements);
  return true;
}
template <typename T>
bool assign(const toml::value& value, std::optional<T>& out) {
  T item{};
  if (!assign(value, item)) return false;
  out = std::move(item);
  return true;
}

// Refuses what would make the parser recurse deeply, before it does. Brackets inside strings and comments do
// not count.
void check_depth(std::string_view text, const std::string& name) {
  int depth = 0;
  int line = 1;
  char quote = 0;
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      comment = false;
      quote = 0;  // only multi-line strings go on, and a bracket counted too much there is harmless below the
                  // limit
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) {
        throw Error(ErrorKind::kInvalidInput, fmt::format("nested deeper than {}", kDeepest),
                    fmt::format("{}:{}", name, line));
      }
    } else if (c == ']' || c == '}') {
      depth = std::max(0, depth - 1);
    }
  }
  // A dotted key nests too: a.b.c.d = 1.
  std::size_t start = 0;
  line = 1;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view key =
        text.substr(start, std::min(text.substr(start, end - start).find('='), end - start));
    if (std::count(key.begin(), key.end(), '.') > kDeepest &&
        key.find_first_of("\"'#") == std::string_view::npos) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("a key of more than {} parts", kDeepest),
                  fmt::format("{}:{}", name, line));
    }
    start = end + 1;
    ++line;
  }
}

// The first sentence of toml11's message without its drawing of the place, which `where` gives already.
std::string first_line(const std::string& what) {
  std::string text = what.substr(0, what.find('\n'));
  if (const std::size_t mark = text.find("] "); text.rfind("[error", 0) == 0 && mark != std::string::npos) {
    text = text.substr(mark + 2);
  }
  for (const std::string prefix : {"toml::parse_table: ", "toml::parse: ", "toml::"}) {
    if (text.rfind(prefix, 0) == 0) text = text.substr(prefix.size());
  }
  return text;
}

// The line of toml11's syntax errors is only drawn in their text: "  --> name\n    |\n  7 | key = ".
std::string syntax_place(const std::string& what, const std::string& name) {
  for (std::size_t at = what.find('\n'); at != std::string::npos; at = what.find('\n', at + 1)) {
    std::size_t digits = what.find_first_not_of(' ', at + 1);
    if (digits == std::string::npos) break;
    std::size_t end = digits;
    while (end < what.size() && what[end] >= '0' && what[end] <= '9')
      ++end;
    if (end > digits && what.compare(end, 2, " |") == 0)
      return name + ":" + what.substr(digits, end - digits);
  }
  return name;
}

toml::value parse_toml(std::string_view text, const std::string& name) {
  check_depth(text, name);
  // toml11 crashes on a NUL and accepts broken UTF-8; neither can be meant.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(ErrorKind::kInvalidInput, "a zero byte; is this a text file?",
                fmt::format("{}:{}", name,
                            1 + std::count(text.begin(), text.begin() + static_cast<long>(nul), '\n')));
  }
  std::istringstream stream{std::string(text)};
  try {
    return toml::parse(stream, name);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("not valid TOML: {}", first_line(error.what())),
                syntax_place(error.what(), name));
  }
}

std::string place(const toml::value& value, const std::string& name) {
  const std::uint64_t line = value.location().line();
  return line == 0 ? name : fmt::format("{}:{}", name, line);
}

// toml11 keeps tables in hash order; people read from the top, and so does the first error.
std::vector<std::pair<std::string, toml::value>> in_file_order(const toml::table& table) {
  std::vector<std::pair<std::string, toml::value>> entries(table.begin(), table.end());
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.location().line(), a.first) < std::pair(b.second.location().line(), b.first);
  });
  return entries;
}

std::vector<std::string> keys_of(const std::deque<Field>& fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields)
    keys.push_back(field.key());
  return keys;
}

}  // namespace

Field::Field(std::string key, FieldTarget target, std::string help)
    : key_(std::move(key)), target_(target), help_(std::move(help)) {
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
  return std::visit([](auto* target) { return name_of_type<std::remove_pointer_t<decltype(target)>>(); },
                    target_);
}

std::string Field::allowed() const {
  if (!choices_.empty()) {
    std::vector<std::string> names;
    for (const std::string& choice : choices_)
      names.push_back(quote(choice));
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
        return fmt::format("found {}{}", quote(value), did_you_mean(value, choices_));
      }
      return {};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {};
    } else {
      const auto number = static_cast<double>(value);
      const bool low = least_is_open_ ? number <= least_ : number < least_;
      // Written so that NaN, which compares false to everything, is refused wherever there is any limit.
      if ((std::isfinite(least_) || std::isfinite(most_)) && (std::isnan(number) || low || number > most_)) {
        return fmt::format("found {}", to_text(value));
      }
      return {};
    }
  };
  return std::visit([&](auto* target) { return check(check, *target); }, target_);
}

Field& Section::field(std::string key, FieldTarget target, std::string help) {
  return fields_.emplace_back(std::move(key), target, std::move(help));
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
  load_text(read_text(path, kLargestFile), path.string());
}

void Schema::load_text(std::string_view text, const std::string& name) {
  file_ = name;
  const toml::value document = parse_toml(text, name);
  for (const auto& [section_name, table] : in_file_order(document.as_table())) {
    Section* section = find_section(section_name);
    if (section == nullptr) {
      std::vector<std::string> names;
      for (const Section& known : sections_)
        names.push_back(known.name());
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("[{}] is not a section{}", section_name, did_you_mean(section_name, names)),
                  place(table, name), fmt::format("Sections are {}.", join_words(names)));
    }
    if (!table.is_table()) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("{} is {}, not a section", section_name, found_text(table)), place(table, name),
                  fmt::format("Write [{}] on a line of its own, and its keys below.", section_name));
    }
    for (const auto& [key, value] : in_file_order(table.as_table())) {
      const auto field = std::find_if(section->fields_.begin(), section->fields_.end(),
                                      [&k = key](const Field& f) { return f.key() == k; });
      const std::string where = place(value, name);
      if (field == section->fields_.end()) {
        const std::vector<std::string> keys = keys_of(section->fields_);
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("{}.{} is not a key{}", section_name, key, did_you_mean(key, keys)), where,
                    fmt::format("Keys of [{}] are {}.", section_name, join_words(keys)));
      }
      if (!std::visit([&v = value](auto* target) { return assign(v, *target); }, field->target_)) {
        throw Error(ErrorKind::kInvalidInput,
                    fmt::format("{}.{}: found {}", section_name, key, found_text(value)), where,
                    fmt::format("Expected {}.", field->allowed()));
      }
      field->where_ = where;
      if (const std::string violation = field->violation(); !violation.empty()) {
        throw Error(ErrorKind::kInvalidInput, fmt::format("{}.{}: {}", section_name, key, violation), where,
                    fmt::format("Expected {}.", field->allowed()));
      }
    }
  }
}

void Schema::set(const std::string& assignment) {
  const std::string name = "--set " + assignment;
  const std::size_t equals = assignment.find('=');
  const std::size_t dot = assignment.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals || dot == 0 ||
      dot + 1 == equals) {
    throw Error(ErrorKind::kInvalidInput, "not of the form section.key=value", name,
                "For example --set job.epochs=3.");
  }
  const std::string section = assignment.substr(0, dot);
  const std::string key = assignment.substr(dot + 1, equals - dot - 1);
  const auto bare = [](const std::string& word) {
    return word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
           std::string::npos;
  };
  if (!bare(section) || !bare(key)) {
    throw Error(ErrorKind::kInvalidInput, "not of the form section.key=value", name,
                "For example --set job.epochs=3.");
  }
  const std::string value = assignment.substr(equals + 1);
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
  for (Field& field : find_section(section)->fields_) {
    if (field.key() == key) field.where_ = name;
  }
}

std::string Schema::where(std::string_view path) const {
  const std::size_t dot = path.find('.');
  MUSTER_CHECK(dot != std::string_view::npos, "a path is section.key");
  for (const Section& section : sections_) {
    if (section.name() != path.substr(0, dot)) continue;
    for (const Field& field : section.fields()) {
      if (field.key() == path.substr(dot + 1)) return field.where_;
    }
  }
  MUSTER_CHECK(false, fmt::format("{} is no key of this schema", path));
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
      text += value ? fmt::format("{} = {}\n", field.key(), *value)
                    : fmt::format("# {} is not set\n", field.key());
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
            if constexpr (IsOptional<std::remove_pointer_t<decltype(target)>>::value) {
              if (target->has_value()) keys[field.key()] = **target;
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
  std::string text;
  for (const Section& section : sections_) {
    text += fmt::format("## [{}]\n\n{}\n\n| key | allowed | default | meaning |\n| --- | --- | --- | --- |\n",
                        section.name(), section.help());
    for (const Field& field : section.fields()) {
      const auto value = field.to_toml();
      text += fmt::format("| `{}` | {} | {} | {} |\n", field.key(), field.allowed(),
                          value ? fmt::format("`{}`", *value) : "not set", field.help());
    }
    text += "\n";
  }
  return text;
}

}  // namespace muster
