// parse_toml with toml11 4, whose errors carry a title and the places it is about. Its twin is toml_parser_3.cpp; CMake
// takes the one that fits what is installed.
#include <fmt/format.h>
#include <toml.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/base/toml_text.h"
#include "muster/base/toml_value.h"

namespace muster {
namespace {

// The title without the names of toml11's functions ("toml::parse_array: ..."); where nothing else is left of it, the
// remark beside the place.
std::string reason(const toml::error_info& error) {
  std::string text = error.title();
  if (const std::size_t end = text.find(": "); text.starts_with("toml::") && end != std::string::npos)
    text.erase(0, end + 2);
  if (text.find_first_not_of(' ') == std::string::npos && !error.locations().empty())
    text = error.locations().back().second;
  return excerpt(text, 200);
}

// Of two places (a key that stands twice, an array and where it breaks) the last is the one to look at.
std::string syntax_place(const toml::error_info& error, const std::string& name) {
  std::size_t line = 0;
  for (const auto& location : error.locations())
    line = std::max(line, location.first.first_line_number());
  return line == 0 ? name : fmt::format("{}:{}", name, line);
}

TomlValue plain(const toml::ordered_value& value) {
  TomlValue out;
  out.line = value.location().first_line_number();
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
      out.data = value.as_string();
      break;
    case toml::value_t::array: {
      TomlValue::Array array;
      for (const toml::ordered_value& element : value.as_array())
        array.push_back(plain(element));
      out.data = std::move(array);
      break;
    }
    case toml::value_t::table: {
      TomlValue::Table table;
      for (const auto& [key, element] : value.as_table())
        table.push_back({key, plain(element)});
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
  const auto parsed = toml::try_parse_str<toml::ordered_type_config>(checked_toml(text, name));
  if (parsed.is_ok()) return plain(parsed.unwrap());
  const toml::error_info& error = parsed.unwrap_err().front();
  throw Error(ErrorKind::kInvalidInput, fmt::format("not valid TOML: {}", reason(error)), syntax_place(error, name));
}

}  // namespace muster
