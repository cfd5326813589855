// A value of a key in a trial, and the values of all of them: what a searcher proposes and a job is given.
//
// Types are those of a job file: bool, integer, real number, text. Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/json.h"

namespace muster::tuning {

using Value = std::variant<bool, std::int64_t, double, std::string>;

// As it stands in a job file: true, 64, 0.1, "sgd" (with quotes). Reads back to the same value, of the same type.
std::string to_toml(const Value& value);
// For people: as to_toml, texts without quotes.
std::string to_text(const Value& value);
Json to_json(const Value& value);
// Throws Error{kDamaged} with `where` for what is no value.
Value value_from_json(const Json& json, const std::string& where);

// Names and values, in the order of the space. Keys whose condition does not hold are not in it.
class Assignment {
 public:
  using Entry = std::pair<std::string, Value>;

  Assignment() = default;
  Assignment(std::initializer_list<Entry> entries) : entries_(entries) {}

  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  // Null if the name is not in it.
  const Value* find(std::string_view name) const;
  // Changes the value of a name that is there, else appends it.
  void set(std::string_view name, Value value);

  // "optimizer.lr = 0.1, optimizer.name = sgd".
  std::string text() const;
  // An object, in order.
  Json json() const;
  static Assignment from_json(const Json& json, const std::string& where);

  bool operator==(const Assignment&) const = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace muster::tuning
