#include "muster/base/json.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster {
namespace {

constexpr int kDeepest = 32;

// Which JSON value a C++ type accepts. Integers are not taken from floating-point numbers, nor negative ones
// as unsigned.
bool fits(const Json& value, const std::string*) {
  return value.is_string();
}
bool fits(const Json& value, const bool*) {
  return value.is_boolean();
}
bool fits(const Json& value, const double*) {
  return value.is_number();
}
bool fits(const Json& value, const std::uint64_t*) {
  return value.is_number_unsigned();
}
bool fits(const Json& value, const std::int64_t*) {
  return value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
}
bool fits(const Json& value, const Json*) {
  return value.is_object();
}
template <typename T>
bool fits(const Json& value, const std::vector<T>*) {
  if (!value.is_array()) return false;
  for (const Json& element : value) {
    if (!fits(element, static_cast<const T*>(nullptr))) return false;
  }
  return true;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  // Checked before the library sees it, so that nothing deep is ever built.
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) {
        throw Error(ErrorKind::kDamaged, fmt::format("JSON nested deeper than {} at byte {}", kDeepest, i),
                    where);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kDamaged, fmt::format("not valid JSON ({})", error.what()), where);
  }
}

template <typename T>
T json_get(const Json& object, const std::string& key, const std::string& where) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end())
    throw Error(ErrorKind::kDamaged, fmt::format("member \"{}\" is missing", key), where);
  if (!fits(*found, static_cast<const T*>(nullptr))) {
    throw Error(ErrorKind::kDamaged,
                fmt::format("member \"{}\" has the wrong type ({})", key, found->type_name()), where);
  }
  return found->get<T>();
}

template std::string json_get(const Json&, const std::string&, const std::string&);
template bool json_get(const Json&, const std::string&, const std::string&);
template double json_get(const Json&, const std::string&, const std::string&);
template std::uint64_t json_get(const Json&, const std::string&, const std::string&);
template std::int64_t json_get(const Json&, const std::string&, const std::string&);
template Json json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::int64_t> json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::uint64_t> json_get(const Json&, const std::string&, const std::string&);
template std::vector<std::string> json_get(const Json&, const std::string&, const std::string&);

}  // namespace muster
