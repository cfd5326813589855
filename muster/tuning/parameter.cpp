// One key of a space: which values it has, and how the unit interval is mapped onto them.
// The unit interval is what searchers work in; a value that goes there and back is the same value.
#include <algorithm>
#include <cmath>

#include "muster/base/check.h"
#include "muster/tuning/space.h"

namespace muster::tuning {
namespace {

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

// A log_integer owns the logarithm of [v - 0.5, v + 0.5].
double log_low(const Parameter& parameter) {
  return std::log(parameter.kind == Kind::kInteger ? parameter.least - 0.5 : parameter.least);
}
double log_high(const Parameter& parameter) {
  return std::log(parameter.kind == Kind::kInteger ? parameter.most + 0.5 : parameter.most);
}

// Of a number with steps; what rounding leaves of a step at the end is no step less.
std::uint64_t steps(const Parameter& parameter) {
  const double step = parameter.step > 0.0 ? parameter.step : 1.0;
  return static_cast<std::uint64_t>(std::floor((parameter.most - parameter.least) / step + 1e-9)) + 1;
}

}  // namespace

Parameter Parameter::uniform(std::string name, double least, double most, double step) {
  return {.name = std::move(name), .least = least, .most = most, .step = step};
}

Parameter Parameter::log_uniform(std::string name, double least, double most) {
  return {.name = std::move(name), .least = least, .most = most, .log = true};
}

Parameter Parameter::integer(std::string name, std::int64_t least, std::int64_t most, std::int64_t step) {
  return {.name = std::move(name),
          .kind = Kind::kInteger,
          .least = static_cast<double>(least),
          .most = static_cast<double>(most),
          .step = static_cast<double>(step)};
}

Parameter Parameter::log_integer(std::string name, std::int64_t least, std::int64_t most) {
  Parameter parameter = integer(std::move(name), least, most);
  parameter.log = true;
  return parameter;
}

Parameter Parameter::choice(std::string name, std::vector<Value> choices) {
  return {.name = std::move(name), .kind = Kind::kChoice, .choices = std::move(choices)};
}

Parameter Parameter::only_when(std::string key, std::vector<Value> values) && {
  when.push_back({std::move(key), std::move(values)});
  return std::move(*this);
}

std::optional<std::uint64_t> Parameter::count() const {
  if (kind == Kind::kChoice) return choices.size();
  if (kind == Kind::kReal && step == 0.0) return std::nullopt;
  return steps(*this);
}

Value Parameter::at(std::uint64_t i) const {
  MUSTER_CHECK(count() && i < *count(), name);
  if (kind == Kind::kChoice) return choices[i];
  const double number = least + static_cast<double>(i) * (step > 0.0 ? step : 1.0);
  if (kind == Kind::kInteger) return static_cast<std::int64_t>(std::llround(number));
  return std::min(number, most);
}

std::uint64_t Parameter::index(const Value& value) const {
  if (kind == Kind::kChoice)
    return static_cast<std::uint64_t>(std::find(choices.begin(), choices.end(), value) - choices.begin());
  const double position = (*number_of(value) - least) / (step > 0.0 ? step : 1.0);
  return static_cast<std::uint64_t>(std::clamp(std::round(position), 0.0, static_cast<double>(*count() - 1)));
}

bool Parameter::contains(const Value& value) const {
  if (kind == Kind::kChoice) return std::find(choices.begin(), choices.end(), value) != choices.end();
  const std::optional<double> number = number_of(value);
  if (!number || !(*number >= least && *number <= most)) return false;
  if (kind == Kind::kInteger && *number != std::round(*number)) return false;
  if (!count()) return true;
  return std::abs(*number_of(at(index(value))) - *number) <= 1e-9 * (step > 0.0 ? step : 1.0);
}

Value Parameter::from_unit(double unit) const {
  unit = std::clamp(unit, 0.0, 1.0);
  if (log) {
    const double number = std::exp(log_low(*this) + unit * (log_high(*this) - log_low(*this)));
    const double inside = std::clamp(kind == Kind::kInteger ? std::round(number) : number, least, most);
    if (kind == Kind::kInteger) return static_cast<std::int64_t>(inside);
    return inside;
  }
  if (const std::optional<std::uint64_t> values = count())
    return at(std::min(static_cast<std::uint64_t>(unit * static_cast<double>(*values)), *values - 1));
  return std::clamp(least + unit * (most - least), least, most);
}

double Parameter::to_unit(const Value& value) const {
  if (log) {
    const double width = log_high(*this) - log_low(*this);
    return width > 0.0 ? std::clamp((std::log(*number_of(value)) - log_low(*this)) / width, 0.0, 1.0) : 0.5;
  }
  if (const std::optional<std::uint64_t> values = count())
    return (static_cast<double>(index(value)) + 0.5) / static_cast<double>(*values);
  return most > least ? std::clamp((*number_of(value) - least) / (most - least), 0.0, 1.0) : 0.5;
}

}  // namespace muster::tuning
