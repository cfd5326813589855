// A space as it stands in a study file and in JSON. Both are read as one tree of plain values, so that there is one
// reader; a table is a form when it has one of the words below with an array behind it, else a part of a dotted key.
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tuning/space.h"

namespace muster::tuning {
namespace {

constexpr std::array<std::string_view, 5> kForms = {"uniform", "log", "integer", "log_integer", "choice"};
constexpr std::string_view kRemedy =
    "A key is { uniform = [a, b] }, { log = [a, b] }, { integer = [a, b] }, { log_integer = [a, b] }, "
    "{ choice = [...] } or a fixed value; beside it step = s and when = { key = value } may stand.";

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  void read(const TomlValue::Table& table, const std::string& prefix) {
    for (const TomlEntry& entry : table) {
      const std::string name = prefix.empty() ? entry.key : prefix + "." + entry.key;
      lines_.try_emplace(name, entry.value.line);
      const auto* const inner = entry.value.get<TomlValue::Table>();
      if (inner == nullptr) {
        parameters.push_back(Parameter::choice(name, {scalar(entry.value, name)}));
      } else if (const TomlEntry* const form = form_of(*inner)) {
        parameters.push_back(parameter(name, *form, *inner));
      } else if (inner->empty() || find(*inner, "step") != nullptr || find(*inner, "when") != nullptr) {
        throw invalid(entry.value.line, name, "says not what values it may take");
      } else {
        read(*inner, name);
      }
    }
  }

  Space space() && {
    try {
      return Space(std::move(parameters));
    } catch (const Error& error) {
      const auto line = lines_.find(error.where());
      throw invalid(line == lines_.end() ? 0 : line->second, error.where(), error.message(), error.remedy());
    }
  }

  std::vector<Parameter> parameters;

 private:
  Error invalid(std::uint64_t line, const std::string& name, const std::string& message,
                const std::string& remedy = std::string(kRemedy)) const {
    return Error(ErrorKind::kInvalidInput, fmt::format("{}: {}", name, message),
                 line == 0 ? file_ : fmt::format("{}:{}", file_, line), remedy);
  }

  static const TomlEntry* find(const TomlValue::Table& table, std::string_view key) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const TomlEntry& e) { return e.key == key; });
    return found == table.end() ? nullptr : &*found;
  }

  // `choice = [...]` of a table; null for a part of a dotted key.
  static const TomlEntry* form_of(const TomlValue::Table& table) {
    for (const std::string_view form : kForms) {
      const TomlEntry* const entry = find(table, form);
      if (entry != nullptr && entry->value.get<TomlValue::Array>() != nullptr) return entry;
    }
    return nullptr;
  }

  Value scalar(const TomlValue& value, const std::string& name) const {
    if (const auto* flag = value.get<bool>()) return *flag;
    if (const auto* integer = value.get<std::int64_t>()) return *integer;
    if (const auto* number = value.get<double>()) return *number;
    if (const auto* text = value.get<std::string>()) return *text;
    throw invalid(value.line, name, "a value is true, false, a number or a text");
  }

  double number(const TomlValue& value, const std::string& name, bool integer) const {
    if (const auto* whole = value.get<std::int64_t>()) return static_cast<double>(*whole);
    if (const auto* real = value.get<double>(); real != nullptr && !integer) return *real;
    throw invalid(value.line, name, integer ? "its limits and step are integers" : "its limits and step are numbers");
  }

  Parameter parameter(const std::string& name, const TomlEntry& form, const TomlValue::Table& table) const {
    const auto& array = *form.value.get<TomlValue::Array>();
    Parameter made{.name = name};
    if (form.key == "choice") {
      made.kind = Kind::kChoice;
      for (const TomlValue& value : array)
        made.choices.push_back(scalar(value, name));
    } else {
      const bool integer = form.key.ends_with("integer");
      if (array.size() != 2) throw invalid(form.value.line, name, fmt::format("{} takes two limits", form.key));
      made.kind = integer ? Kind::kInteger : Kind::kReal;
      made.least = number(array[0], name, integer);
      made.most = number(array[1], name, integer);
      made.log = form.key.starts_with("log");
      made.step = integer ? 1.0 : 0.0;
    }
    for (const TomlEntry& entry : table) {
      if (&entry == &form) continue;
      if (entry.key == "when" && entry.value.get<TomlValue::Table>() != nullptr) {
        conditions(made, *entry.value.get<TomlValue::Table>(), "");
      } else if (entry.key == "step" && made.kind != Kind::kChoice) {
        made.step = number(entry.value, name, made.kind == Kind::kInteger);
        if (!(made.step > 0.0)) throw invalid(entry.value.line, name, "a step is greater than 0");
      } else {
        throw invalid(entry.value.line, name, fmt::format("\"{}\" has no place beside {}", entry.key, form.key));
      }
    }
    return made;
  }

  void conditions(Parameter& made, const TomlValue::Table& table, const std::string& prefix) const {
    for (const TomlEntry& entry : table) {
      const std::string key = prefix.empty() ? entry.key : prefix + "." + entry.key;
      if (const auto* const inner = entry.value.get<TomlValue::Table>()) {
        conditions(made, *inner, key);
        continue;
      }
      Condition condition{key, {}};
      if (const auto* const values = entry.value.get<TomlValue::Array>()) {
        for (const TomlValue& value : *values)
          condition.values.push_back(scalar(value, made.name));
      } else {
        condition.values.push_back(scalar(entry.value, made.name));
      }
      made.when.push_back(std::move(condition));
    }
  }

  std::string file_;
  std::map<std::string, std::uint64_t> lines_;
};

TomlValue plain(const Json& json, const std::string& where) {
  TomlValue value;
  if (json.is_object()) {
    TomlValue::Table table;
    for (const auto& [key, member] : json.items())
      table.push_back({key, plain(member, where)});
    value.data = std::move(table);
  } else if (json.is_array()) {
    TomlValue::Array array;
    for (const Json& element : json)
      array.push_back(plain(element, where));
    value.data = std::move(array);
  } else {
    std::visit([&](const auto& held) { value.data = held; }, value_from_json(json, where));
  }
  return value;
}

Json form_json(const Parameter& parameter) {
  Json form = Json::object();
  if (parameter.kind == Kind::kChoice) {
    form["choice"] = Json::array();
    for (const Value& value : parameter.choices)
      form["choice"].push_back(to_json(value));
  } else if (parameter.kind == Kind::kInteger) {
    form[parameter.log ? "log_integer" : "integer"] = {static_cast<std::int64_t>(parameter.least),
                                                       static_cast<std::int64_t>(parameter.most)};
    if (parameter.step > 1.0) form["step"] = static_cast<std::int64_t>(parameter.step);
  } else {
    form[parameter.log ? "log" : "uniform"] = {parameter.least, parameter.most};
    if (parameter.step > 0.0) form["step"] = parameter.step;
  }
  for (const Condition& condition : parameter.when) {
    Json& values = form["when"][condition.key] = Json::array();
    for (const Value& value : condition.values)
      values.push_back(to_json(value));
  }
  return form;
}

}  // namespace

Space Space::from_toml(const TomlValue& table, const std::string& file) {
  const auto* const entries = table.get<TomlValue::Table>();
  if (entries == nullptr)
    throw Error(ErrorKind::kInvalidInput, "the space is a table: [space]", file, std::string(kRemedy));
  Reader reader(file);
  reader.read(*entries, "");
  return std::move(reader).space();
}

Space Space::from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(ErrorKind::kDamaged, "a space that is no object", where);
  return from_toml(plain(json, where), where);
}

Json Space::json() const {
  Json object = Json::object();
  for (const Parameter& parameter : parameters_)
    object[parameter.name] = form_json(parameter);
  return object;
}

}  // namespace muster::tuning
