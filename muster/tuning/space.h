// What a search may choose: keys of a job (or names a program knows), each with the values it may take.
//
// In a study file, under [space] (dotted keys are keys of the job; quoted ones mean the same):
//
//   optimizer.lr       = { log = [1e-4, 1.0] }               real, the logarithm evenly
//   optimizer.momentum = { uniform = [0.0, 0.99], when = { optimizer.name = "sgd" } }
//   loss.smoothing     = { uniform = [0.0, 0.3], step = 0.1 }
//   data.batch         = { integer = [32, 512], step = 32 }
//   model.width        = { log_integer = [16, 1024] }
//   optimizer.name     = { choice = ["sgd", "adam"] }
//   job.epochs         = 10                                   fixed
//
// `when` names a key and the value (or an array of values) that it must have; several keys must all hold. A key whose
// condition does not hold is not proposed at all. A condition may name a choice, or an integer, and only keys that are
// in the space. Thread safety: values, constant after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/toml_value.h"
#include "muster/tuning/value.h"

namespace muster::tuning {

enum class Kind { kReal, kInteger, kChoice };

// The key is there only when `key` has one of `values`.
struct Condition {
  std::string key;
  std::vector<Value> values;
  bool operator==(const Condition&) const = default;
};

// One key. Build it by the functions below, which Space checks again.
struct Parameter {
  std::string name;
  Kind kind = Kind::kReal;
  double least = 0.0;  // numbers only, both inclusive
  double most = 1.0;
  double step = 0.0;  // 0: any number between (of integers: 1). Values are least + k * step
  bool log = false;   // evenly by the logarithm; not with a step
  std::vector<Value> choices = {};
  std::vector<Condition> when = {};  // all must hold

  static Parameter uniform(std::string name, double least, double most, double step = 0.0);
  static Parameter log_uniform(std::string name, double least, double most);
  static Parameter integer(std::string name, std::int64_t least, std::int64_t most, std::int64_t step = 1);
  static Parameter log_integer(std::string name, std::int64_t least, std::int64_t most);
  static Parameter choice(std::string name, std::vector<Value> choices);
  // The same with one more condition.
  Parameter only_when(std::string key, std::vector<Value> values) &&;

  // How many values it can take; empty for a real number without a step.
  std::optional<std::uint64_t> count() const;
  // Value number i of count(), in order. REQUIRES: i < count().
  Value at(std::uint64_t i) const;
  // The position of `value` among at(); the nearest for numbers. REQUIRES: contains(value), count().
  std::uint64_t index(const Value& value) const;
  bool contains(const Value& value) const;

  // The unit interval mapped onto the values and back: evenly in the scale of the parameter; each discrete value owns
  // an equal part (log_integer: its part of the logarithm of [least - 0.5, most + 0.5]) and to_unit is its middle.
  Value from_unit(double unit) const;
  double to_unit(const Value& value) const;

  bool operator==(const Parameter&) const = default;
};

class Space {
 public:
  Space() = default;
  // Throws Error{kInvalidInput} naming the parameter: a name twice or empty, limits in the wrong order or not finite,
  // log of a number that is not positive, a step that is not positive or larger than the range, no choice or one twice,
  // a condition on a key that is not in the space, on itself, in a circle, on a real number or on a value it never has.
  explicit Space(std::vector<Parameter> parameters);

  // From the table of [space]; errors name "file:line". Throws Error{kInvalidInput}, too, for forms it does not know.
  static Space from_toml(const TomlValue& table, const std::string& file);
  // Of what json() gave. Throws kDamaged and kInvalidInput.
  static Space from_json(const Json& json, const std::string& where);
  // An object: name -> the same forms as in a study file, names with dots.
  Json json() const;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::size_t size() const { return parameters_.size(); }
  // Null if there is none of that name.
  const Parameter* find(std::string_view name) const;
  // Positions of the parameters such that a condition's key comes before who depends on it.
  const std::vector<std::size_t>& order() const { return order_; }
  // Whether the conditions of parameter `position` hold for what is in `values` so far.
  bool active(std::size_t position, const Assignment& values) const;
  bool has_conditions() const;

  // One unit number a parameter (in the order of parameters()) -> an assignment of the active ones.
  Assignment from_units(const std::vector<double>& units) const;
  // Throws Error{kInvalidInput}: a key not in the space, a value outside of it, one that is missing or whose condition
  // does not hold. What a user or an earlier study gives is checked by this. Keys of one value need not be given.
  void check(const Assignment& values) const;
  // The part of `values` (of a user, or of an earlier study with another space) that fits, each value in the type of
  // its key (1 for a real number becomes 1.0); empty if an active key has no value or one that is outside.
  std::optional<Assignment> fit(const Assignment& values) const;

  bool operator==(const Space& other) const { return parameters_ == other.parameters_; }

 private:
  Assignment completed(const Assignment& values) const;

  std::vector<Parameter> parameters_;
  std::vector<std::size_t> order_;
};

}  // namespace muster::tuning
