#include "muster/base/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <tuple>
#include <type_traits>

#include <fmt/format.h>
#include <toml.hpp>

#include "muster/base/check.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/base/toml_text.h"

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
    case toml::value_t::string:
      out << quote(excerpt(value.as_string().str, kShownBytes)) << " (a string)";
      break;
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
bool assign(const toml::value& value, IntegerRange& out) {
  if (value.is_integer()) {
    out = {value.as_integer(), value.as_integer()};
    return true;
  }
  const auto range = value.is_string() ? parse_integer_range(value.as_string().str) : std::nullopt;
  if (range) out = *range;
  return range.has_value();
}
bool assign(const toml::value& value, AutoInteger& out) {
  if (value.is_integer()) {
    out = {false, value.as_integer()};
    return true;
  }
  out = {true, 0};
  return value.is_string() && value.as_string().str == "auto";
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

// Why `value` is no T, for messages; REQUIRES: assign() refused it.
template <typename T>
std::string mismatch(const toml::value& value) {
  if constexpr (IsOptional<T>::value) {
    return mismatch<typename T::value_type>(value);
  } else if constexpr (IsVector<T>::value) {
    if (value.is_array()) {
      std::size_t position = 0;
      for (const toml::value& element : value.as_array()) {
        ++position;
        typename T::value_type item{};
        if (!assign(element, item)) return fmt::format("element {} is {}", position, found_text(element));
      }
    }
  }
  return "found " + found_text(value);
}

// The first sentence of toml11's message, without the names of its functions and its drawing of the place.
std::string first_sentence(const std::string& what) {
  std::string text = what.substr(0, what.find('\n'));
  for (const std::string mark : {"[error] ", "toml::"}) {
    if (text.starts_with(mark)) text.erase(0, mark.size());
  }
  const std::size_t name = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_");
  if (name == std::string::npos)
    text.clear();  // nothing but a name
  else if (text[name] == ':')
    text.erase(0, name + 1);
  text.erase(0, text.find_first_not_of(' '));
  if (text.empty()) {
    // Some have no sentence, only a remark in the drawing: "   |  ^--- the next token is not a boolean".
    const std::size_t remark = what.rfind("^--- ");
    text = remark == std::string::npos ? "a value of no known form"
                                       : what.substr(remark + 5, what.find('\n', remark) - remark - 5);
  }
  return excerpt(text, 200);
}

// The line of toml11's syntax errors is only drawn in their text: "  --> name\n    |\n  7 | key = ". Of two places (a
// key that stands twice, an array and where it breaks) the last is the one to look at.
std::string syntax_place(const std::string& what, const std::string& name) {
  std::string line;
  for (std::size_t at = what.find('\n'); at != std::string::npos; at = what.find('\n', at + 1)) {
    const std::size_t digits = what.find_first_not_of(' ', at + 1);
    if (digits == std::string::npos) break;
    const std::size_t end = what.find_first_not_of("0123456789", digits);
    if (end != std::string::npos && end > digits && what.compare(end, 2, " |") == 0)
      line = what.substr(digits, end - digits);
  }
  return line.empty() ? name : name + ":" + line;
}

toml::value parse_toml(std::string_view text, const std::string& name) {
  std::istringstream stream{checked_toml(text, name)};
  try {
    return toml::parse(stream, name);
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("not valid TOML: {}", first_sentence(error.what())),
                syntax_place(error.what(), name));
  }
}

struct Entry {
  const std::string* key;
  const toml::value* value;
  std::uint64_t line;
};

// toml11 keeps tables in hash order; people read from the top, and so does the first error.
std::vector<Entry> in_file_order(const toml::table& table) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : table)
    entries.push_back({&key, &value, value.location().line()});
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.line, *a.key) < std::tie(b.line, *b.key); });
  return entries;
}

std::string place(const Entry& entry, const std::string& name) {
  return entry.line == 0 ? name : fmt::format("{}:{}", name, entry.line);
}

std::vector<std::string> keys_of(const std::deque<Field>& fields) {
  std::vector<std::string> keys;
  for (const Field& field : fields)
    keys.push_back(field.key());
  return keys;
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
    } else if constexpr (std::is_same_v<T, bool>) {
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
  const toml::value document = parse_toml(text, name);
  for (const Entry& table : in_file_order(document.as_table())) {
    const std::string section_name = excerpt(*table.key, kShownBytes);
    Section* section = find_section(*table.key);
    if (section == nullptr) {
      std::vector<std::string> names;
      for (const Section& known : sections_)
        names.push_back(known.name());
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("[{}] is not a section{}", section_name, did_you_mean(*table.key, names)),
                  place(table, name), fmt::format("Sections are {}.", join_words(names)));
    }
    if (!table.value->is_table()) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("{} is {}, not a section", section_name, found_text(*table.value)), place(table, name),
                  fmt::format("Write [{}] on a line of its own, and its keys below.", section_name));
    }
    for (const Entry& entry : in_file_order(table.value->as_table())) {
      const std::string path = fmt::format("{}.{}", section_name, excerpt(*entry.key, kShownBytes));
      const std::string where = place(entry, name);
      const auto field = std::find_if(section->fields_.begin(), section->fields_.end(),
                                      [&entry](const Field& f) { return f.key() == *entry.key; });
      if (field == section->fields_.end()) {
        const std::vector<std::string> keys = keys_of(section->fields_);
        throw Error(ErrorKind::kInvalidInput, fmt::format("{} is not a key{}", path, did_you_mean(*entry.key, keys)),
                    where, fmt::format("Keys of [{}] are {}.", section_name, join_words(keys)));
      }
      const std::string expected = fmt::format("Expected {}.", field->allowed());
      std::visit(
          [&](auto* target) {
            if (assign(*entry.value, *target)) return;
            throw Error(ErrorKind::kInvalidInput,
                        fmt::format("{}: {}", path, mismatch<std::decay_t<decltype(*target)>>(*entry.value)), where,
                        expected);
          },
          field->target_);
      field->where_ = where;
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
  const auto bare = [](const std::string& word) {
    return word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
           std::string::npos;
  };
  if (!bare(section) || !bare(key)) {
    throw Error(ErrorKind::kInvalidInput, "not of the form section.key=value", name, "For example --set job.epochs=3.");
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
