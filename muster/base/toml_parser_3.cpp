// parse_toml with toml11 3, whose errors are drawings in text: reason and line are found in them. Its twin is
// toml_parser_4.cpp; CMake takes the one that fits what is installed.
#include <algorithm>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <toml.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/toml_text.h"
#include "muster/base/toml_value.h"

namespace muster {
namespace {

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

TomlValue plain(const toml::value& value) {
  TomlValue out;
  out.line = value.location().line();
  switch (value.type()) {
    case toml::value_t::boolean:
      out.data = value.as_boolean();
      break;
    case toml::value_t::integer:
      out.data = std::int64_t{value.as_integer()};
      break;
    case toml::value_t::floating:
      out.data = value.as_floating();
      break;
    case toml::value_t::string:
      out.data = value.as_string().str;
      break;
    case toml::value_t::array: {
      TomlValue::Array array;
      for (const toml::value& element : value.as_array())
        array.push_back(plain(element));
      out.data = std::move(array);
      break;
    }
    case toml::value_t::table: {
      TomlValue::Table table;
      for (const auto& [key, element] : value.as_table())
        table.push_back({key, plain(element)});
      // toml11 keeps tables in hash order; people read from the top, and so does the first error.
      std::sort(table.begin(), table.end(), [](const TomlEntry& a, const TomlEntry& b) {
        return std::tie(a.value.line, a.key) < std::tie(b.value.line, b.key);
      });
      out.data = std::move(table);
      break;
    }
    default:
      break;
  }
  return out;
}

}  // namespace

TomlValue parse_toml(std::string_view text, const std::string& name) {
  std::istringstream stream{checked_toml(text, name)};
  try {
    return plain(toml::parse(stream, name));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("not valid TOML: {}", first_sentence(error.what())),
                syntax_place(error.what(), name));
  }
}

}  // namespace muster
