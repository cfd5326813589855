// Learning rates: a function of the step and of nothing else, so that a resumed run continues exactly.
//
// The rate rises linearly from warmup_start of the base rate at step 0 to the base rate at step warmup_steps
// (Goyal et al., "Accurate, large minibatch SGD", 2017). After that, with t running from 0 at warmup_steps to
// 1 at total_steps:
//   constant     base
//   step         base * gamma ^ (number of milestones reached)
//   cosine       base * (final + (1 - final) * (1 + cos(pi t)) / 2)
//   polynomial   base * (final + (1 - final) * (1 - t) ^ power)
// A program may give a function instead: base * factor(step).
// Past total_steps the rate stays where it ended. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::compute {

struct Schedule {
  enum class Kind { kConstant, kStep, kCosine, kPolynomial };

  Kind kind = Kind::kConstant;
  double warmup_steps = 0;              // may be a fraction: 5 epochs are seldom a whole number of steps
  double warmup_start = 0.1;            // as a fraction of the base rate; 0 would waste the first step
  std::uint64_t total_steps = 0;        // of the whole run, warm-up included; kCosine, kPolynomial: at least 1
  std::vector<double> milestones = {};  // kStep: in steps from the start of the run; falls within warm-up count, too
  double gamma = 0.1;                   // kStep
  double power = 1.0;                   // kPolynomial
  double final_fraction = 0;            // kCosine, kPolynomial: the rate at the end, as a fraction of the base rate
  // kConstant: the rate after `step` steps, past the warm-up, as a factor of the base rate; 1 if empty. By the step
  // alone, and the same on every worker. Its values must be finite and not negative.
  std::function<double(std::uint64_t step)> factor = {};
};

// The names that a job file may use: constant, step, cosine, polynomial.
std::vector<std::string> schedule_names();

// Throws Error{kInvalidInput} that lists the names when `name` is none of them.
Schedule::Kind parse_schedule(std::string_view name);
std::string_view to_string(Schedule::Kind kind);

// Throws Error{kInvalidInput} that names the field when a number is missing, not finite or out of its range.
void validate(const Schedule& schedule);

// The rate of the update that follows `step` finished ones. Throws kInvalidInput if schedule.factor gives no factor.
// REQUIRES: validate(schedule) passed.
double lr_at(const Schedule& schedule, double base_lr, std::uint64_t step);

// The linear scaling rule: a rate tuned for `base_batch` samples a step, for `batch` samples a step.
// REQUIRES: base_batch > 0.
double scaled_lr(double lr, std::uint64_t base_batch, std::uint64_t batch);

}  // namespace muster::compute
