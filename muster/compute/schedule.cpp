// In basic operations only, where the usual schedules are concerned: the C library's cosine and power differ from one
// machine to the next, and a rate is part of every bit that follows.
#include "muster/compute/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/compute/power.h"

namespace muster::compute {
namespace {

using Kind = Schedule::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 4> kKinds{{
    {"constant", Kind::kConstant},
    {"step", Kind::kStep},
    {"cosine", Kind::kCosine},
    {"polynomial", Kind::kPolynomial},
}};

// The square of the sine of w in [0, pi/4], by its series.
double squared_sine(double w) {
  double term = w;
  double sine = w;
  // The first term left out is below 1e-17 of the sum.
  for (int k = 1; k <= 8; ++k) {
    term *= -w * w / static_cast<double>(2 * k * (2 * k + 1));
    sine += term;
  }
  return sine * sine;
}

// (1 + cos(pi t)) / 2 for t in [0, 1], in basic operations (power.h says why), and exactly 1 and 0 at the ends.
double cosine_fall(double t) {
  const double quarter = std::numbers::pi / 2;
  return t < 0.5 ? 1 - squared_sine(quarter * t) : squared_sine(quarter * (1 - t));
}

// Whole powers, the usual ones, in basic operations; the C library's pow for the others.
double power_of(double base, double exponent) {
  if (exponent == std::floor(exponent) && exponent < 1e6) {
    return whole_power(base, static_cast<std::uint64_t>(exponent));
  }
  return std::pow(base, exponent);
}

void require(bool condition, std::string_view field, double value, std::string_view allowed) {
  if (condition) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("schedule: {} = {} is not {}", field, value, allowed));
}

double own_factor(const Schedule& schedule, std::uint64_t step) {
  if (!schedule.factor) return 1;
  const double factor = schedule.factor(step);
  require(std::isfinite(factor) && factor >= 0, fmt::format("factor({})", step), factor, "a number of at least 0");
  return factor;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& kind : kKinds)
    names.emplace_back(kind.first);
  return names;
}

Kind parse_schedule(std::string_view name) {
  for (const auto& kind : kKinds) {
    if (kind.first == name) return kind.second;
  }
  const std::vector<std::string> names = schedule_names();
  throw Error(ErrorKind::kInvalidInput, fmt::format("unknown schedule \"{}\"{}", name, did_you_mean(name, names)), "",
              fmt::format("use one of {}", join_words(names)));
}

std::string_view to_string(Kind kind) {
  for (const auto& known : kKinds) {
    if (known.second == kind) return known.first;
  }
  MUSTER_CHECK(false, "a schedule without a name");
}

void validate(const Schedule& schedule) {
  constexpr std::string_view kNotNegative = "a number of at least 0";
  constexpr std::string_view kFraction = "a fraction from 0 to 1";
  const auto not_negative = [](double value) { return std::isfinite(value) && value >= 0; };
  const auto fraction = [](double value) { return value >= 0 && value <= 1; };
  require(not_negative(schedule.warmup_steps), "warmup_steps", schedule.warmup_steps, kNotNegative);
  require(fraction(schedule.warmup_start), "warmup_start", schedule.warmup_start, kFraction);
  require(not_negative(schedule.gamma), "gamma", schedule.gamma, kNotNegative);
  require(not_negative(schedule.power), "power", schedule.power, kNotNegative);
  require(fraction(schedule.final_fraction), "final_fraction", schedule.final_fraction, kFraction);
  const bool walks = schedule.kind == Kind::kCosine || schedule.kind == Kind::kPolynomial;
  if (walks && schedule.total_steps == 0) {
    // Its end would be its beginning: the rate would be that of the end in every step.
    throw Error(ErrorKind::kInvalidInput, fmt::format("schedule: {} needs total_steps", to_string(schedule.kind)), {},
                "Set total_steps to the steps of the whole run, over which the rate falls.");
  }
  if (schedule.factor && schedule.kind != Kind::kConstant) {
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("schedule: a factor of one's own beside {}", to_string(schedule.kind)), {},
                "Leave the kind at kConstant: the function says it all.");
  }
  for (const double milestone : schedule.milestones) {
    require(not_negative(milestone), "milestones", milestone, kNotNegative);
  }
}

double lr_at(const Schedule& schedule, double base_lr, std::uint64_t step) {
  const auto now = static_cast<double>(step);
  if (now < schedule.warmup_steps) {
    return base_lr * (schedule.warmup_start + (1 - schedule.warmup_start) * (now / schedule.warmup_steps));
  }
  const double length = static_cast<double>(schedule.total_steps) - schedule.warmup_steps;
  // A run that ends within its warm-up has no schedule left to walk through: it is at the end of it.
  const double t = length > 0 ? std::min(1.0, (now - schedule.warmup_steps) / length) : 1.0;
  const double fall = 1 - schedule.final_fraction;
  switch (schedule.kind) {
    case Kind::kConstant:
      return base_lr * own_factor(schedule, step);
    case Kind::kStep: {
      const auto reached = std::count_if(schedule.milestones.begin(), schedule.milestones.end(),
                                         [now](double milestone) { return milestone <= now; });
      return base_lr * whole_power(schedule.gamma, static_cast<std::uint64_t>(reached));
    }
    case Kind::kCosine:
      return base_lr * (schedule.final_fraction + fall * cosine_fall(t));
    case Kind::kPolynomial:
      return base_lr * (schedule.final_fraction + fall * power_of(1 - t, schedule.power));
  }
  MUSTER_CHECK(false, "a schedule without a formula");
}

double scaled_lr(double lr, std::uint64_t base_batch, std::uint64_t batch) {
  MUSTER_CHECK(base_batch > 0, "a base batch without samples");
  return lr * (static_cast<double>(batch) / static_cast<double>(base_batch));
}

}  // namespace muster::compute
