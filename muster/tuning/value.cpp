// Values as texts and as JSON. Integers and real numbers stay what they are both ways: 1 and 1.0 are different values
// of a job's key.
#include "muster/tuning/value.h"

#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".einf") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::string to_toml(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  return to_text(value);
}

std::string to_text(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  return std::get<std::string>(value);
}

Json to_json(const Value& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Value value_from_json(const Json& json, const std::string& where) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    throw Error(ErrorKind::kDamaged, "an integer beyond 64 bits with a sign", where);
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  throw Error(ErrorKind::kDamaged, "not a value: " + json.dump().substr(0, 80), where,
              "A value is true, false, a number or a text.");
}

const Value* Assignment::find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

void Assignment::set(std::string_view name, Value value) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  entries_.emplace_back(name, std::move(value));
}

std::string Assignment::text() const {
  std::string text;
  for (const auto& [name, value] : entries_)
    text += (text.empty() ? "" : ", ") + name + " = " + to_text(value);
  return text;
}

Json Assignment::json() const {
  Json object = Json::object();
  for (const auto& [name, value] : entries_)
    object[name] = to_json(value);
  return object;
}

Assignment Assignment::from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(ErrorKind::kDamaged, "values that are no object", where);
  Assignment values;
  for (const auto& [name, value] : json.items())
    values.entries_.emplace_back(name, value_from_json(value, where + ": " + name));
  return values;
}

}  // namespace muster::tuning
