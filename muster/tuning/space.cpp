// A space as a whole: what may not stand in it, which keys are active beside which values, and what fits into it.
// Reading and writing of its forms is space_forms.cpp, a single key parameter.cpp.
#include "muster/tuning/space.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tuning {
namespace {

Error invalid(const Parameter& parameter, const std::string& message, const std::string& remedy = {}) {
  return Error(ErrorKind::kInvalidInput, message, parameter.name.empty() ? "the space" : parameter.name, remedy);
}

std::string range_text(const Parameter& parameter) {
  return fmt::format("[{}, {}]", parameter.least, parameter.most);
}

void check_choices(const Parameter& parameter) {
  if (parameter.choices.empty()) throw invalid(parameter, "a choice of nothing", "Give at least one value.");
  for (auto value = parameter.choices.begin(); value != parameter.choices.end(); ++value) {
    if (std::find(parameter.choices.begin(), value, *value) != value)
      throw invalid(parameter, fmt::format("the choice {} stands twice", to_toml(*value)));
  }
}

void check_range(const Parameter& parameter) {
  if (!std::isfinite(parameter.least) || !std::isfinite(parameter.most) || parameter.least > parameter.most)
    throw invalid(parameter, fmt::format("{} is no range", range_text(parameter)), "Give the smaller number first.");
  const double furthest = std::max(std::abs(parameter.least), std::abs(parameter.most));
  if (parameter.kind == Kind::kInteger && furthest > 9007199254740992.0)
    throw invalid(parameter, "integers beyond 2^53 cannot be searched");
  if (parameter.log && parameter.least < (parameter.kind == Kind::kInteger ? 1.0 : 1e-300))
    throw invalid(parameter, fmt::format("the logarithm of {} does not exist", range_text(parameter)),
                  "Begin above 0 (integers: at 1), or use uniform or integer.");
  if (!(parameter.step >= 0.0) || !std::isfinite(parameter.step))
    throw invalid(parameter, fmt::format("a step of {}", parameter.step), "A step is greater than 0.");
  if (parameter.step > parameter.most - parameter.least && parameter.most > parameter.least)
    throw invalid(parameter, fmt::format("a step of {} in {}", parameter.step, range_text(parameter)),
                  "The step must fit into the range.");
  if (parameter.log && parameter.step > 0.0 && !(parameter.kind == Kind::kInteger && parameter.step == 1.0))
    throw invalid(parameter, "a logarithmic range has no steps");
  if (parameter.kind == Kind::kReal && parameter.step > 0.0 &&
      (parameter.most - parameter.least) / parameter.step > 1e9)
    throw invalid(parameter, "more than a billion steps", "Leave the step out.");
}

void check_conditions(const Parameter& parameter, const Space& space) {
  std::vector<std::string> names;
  for (const Parameter& other : space.parameters())
    names.push_back(other.name);
  for (const Condition& condition : parameter.when) {
    const Parameter* const key = space.find(condition.key);
    if (key == nullptr)
      throw invalid(parameter, fmt::format("its condition names \"{}\", which is not in the space{}", condition.key,
                                           did_you_mean(condition.key, names)));
    if (key->kind == Kind::kReal)
      throw invalid(parameter, fmt::format("its condition names \"{}\", a real number", key->name),
                    "A condition is on a choice or an integer.");
    if (condition.values.empty()) throw invalid(parameter, fmt::format("no value of \"{}\" is enough", key->name));
    for (const Value& value : condition.values) {
      if (!key->contains(value))
        throw invalid(parameter,
                      fmt::format("its condition wants {} = {}, which is never so", key->name, to_toml(value)));
    }
  }
}

}  // namespace

Space::Space(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name.empty()) throw invalid(parameter, "a key without a name");
    if (find(parameter.name) != &parameter) throw invalid(parameter, "stands twice in the space");
    if (parameter.kind == Kind::kChoice) {
      check_choices(parameter);
    } else {
      check_range(parameter);
    }
    check_conditions(parameter, *this);
  }
  // Each round takes whoever waits for nobody any more; who is left over waits in a circle.
  std::vector<bool> taken(parameters_.size());
  const auto ready = [&](const Parameter& parameter) {
    return std::all_of(parameter.when.begin(), parameter.when.end(),
                       [&](const Condition& condition) { return taken[find(condition.key) - parameters_.data()]; });
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (taken[i] || !ready(parameters_[i])) continue;
      order_.push_back(i);
      taken[i] = progress = true;
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!taken[i]) throw invalid(parameters_[i], "its conditions lead back to itself");
  }
}

const Parameter* Space::find(std::string_view name) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

bool Space::active(std::size_t position, const Assignment& values) const {
  for (const Condition& condition : parameters_[position].when) {
    const Value* const value = values.find(condition.key);
    if (value == nullptr) return false;
    if (std::find(condition.values.begin(), condition.values.end(), *value) == condition.values.end()) return false;
  }
  return true;
}

bool Space::has_conditions() const {
  return std::any_of(parameters_.begin(), parameters_.end(), [](const Parameter& p) { return !p.when.empty(); });
}

Assignment Space::from_units(const std::vector<double>& units) const {
  Assignment by_order;
  for (const std::size_t i : order_) {
    if (active(i, by_order)) by_order.set(parameters_[i].name, parameters_[i].from_unit(units[i]));
  }
  if (!has_conditions()) return by_order;
  Assignment values;
  for (const Parameter& parameter : parameters_) {
    if (const Value* const value = by_order.find(parameter.name)) values.set(parameter.name, *value);
  }
  return values;
}

// With the keys that can have one value only.
Assignment Space::completed(const Assignment& values) const {
  Assignment all = values;
  for (const std::size_t i : order_) {
    const Parameter& parameter = parameters_[i];
    if (parameter.kind == Kind::kChoice && parameter.choices.size() == 1 && all.find(parameter.name) == nullptr &&
        active(i, all))
      all.set(parameter.name, parameter.choices.front());
  }
  return all;
}

std::optional<Assignment> Space::fit(const Assignment& given) const {
  const Assignment values = completed(given);
  Assignment by_order;
  for (const std::size_t i : order_) {
    const Parameter& parameter = parameters_[i];
    if (!active(i, by_order)) continue;
    const Value* const value = values.find(parameter.name);
    if (value == nullptr || !parameter.contains(*value)) return std::nullopt;
    if (parameter.count()) {
      by_order.set(parameter.name, parameter.at(parameter.index(*value)));
    } else {
      const auto* const integer = std::get_if<std::int64_t>(value);
      by_order.set(parameter.name, integer != nullptr ? Value(static_cast<double>(*integer)) : *value);
    }
  }
  Assignment fitting;
  for (const Parameter& parameter : parameters_) {
    if (const Value* const value = by_order.find(parameter.name)) fitting.set(parameter.name, *value);
  }
  return fitting;
}

void Space::check(const Assignment& partly) const {
  const Assignment values = completed(partly);
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_)
    names.push_back(parameter.name);
  for (const auto& [name, value] : values.entries()) {
    const Parameter* const parameter = find(name);
    if (parameter == nullptr)
      throw Error(ErrorKind::kInvalidInput, fmt::format("not in the space{}", did_you_mean(name, names)), name);
    if (!parameter->contains(value))
      throw invalid(*parameter, fmt::format("{} is outside of the space", to_toml(value)));
  }
  const std::optional<Assignment> fitting = fit(values);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool given = values.find(parameters_[i].name) != nullptr;
    if (!given && active(i, values)) throw invalid(parameters_[i], "has no value");
    if (given && fitting && fitting->find(parameters_[i].name) == nullptr)
      throw invalid(parameters_[i], "has a value although its condition does not hold");
  }
}

}  // namespace muster::tuning
