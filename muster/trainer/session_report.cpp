// Figures that lanes report have a member of their own, so that no name of a program's can be taken for one of ours.
// Metrics are not worth a training run: what cannot be written is told once.
#include "muster/trainer/session_report.h"

#include <algorithm>

#include "muster/base/json.h"

namespace muster::trainer {
namespace {

Json to_json(const compute::Figures& figures) {
  Json json = Json::object();
  for (const compute::Figures::Entry& entry : figures.entries())
    json[std::string(entry.name())] = entry.mean();
  return json;
}

// The largest that is not above `steps`; 1 for none.
std::uint64_t power_of_ten(std::uint64_t steps) {
  std::uint64_t power = 1;
  for (; steps >= 10; steps /= 10)
    power *= 10;
  return power;
}

}  // namespace

void SessionReport::write(const Json& row) {
  if (broken_) return;
  try {
    if (!log_) log_.emplace(file_, [this](const Error& error) { warn_(error.what()); });
    log_->write(row);
  } catch (const Error& error) {
    broken_ = true;
    warn_(error.what());
  }
}

void SessionReport::step(const Step& step, const strategies::StepOutcome& outcome) {
  // Of many short epochs not each has a hundred rows, or a program that runs for days would fill the disk.
  const std::uint64_t stretch = std::max(step.steps_per_epoch, power_of_ten(step.at.step));
  const std::optional<StepsTold> told = rows_.add(step.at.step % stretch + 1, stretch, outcome, step.seconds);
  if (!told) return;
  Json row{{"event", "step"},
           {"epoch", step.at.epoch},
           {"step", step.at.step + 1},
           {"loss", told->loss},
           {"lr", step.lr},
           {"gradient_norm", told->gradient_norm},
           {"samples", static_cast<std::uint64_t>(told->samples)},
           {"samples_per_s", told->samples_per_second()},
           {"skipped", step.skipped}};
  if (!outcome.figures.entries().empty()) row["reports"] = to_json(outcome.figures);
  write(row);
}

void SessionReport::evaluation(const data::Cursor& at, const Evaluation& result) {
  Json row{{"event", "evaluation"},
           {"epoch", at.epoch},
           {"step", at.step},
           {"loss", result.loss},
           {"samples", result.samples}};
  for (const Metric& metric : result.metrics)
    row[metric.name] = metric.value;
  write(row);
}

void SessionReport::measured(const data::Cursor& at, const compute::Figures& figures) {
  write({{"event", "measured"}, {"epoch", at.epoch}, {"step", at.step}, {"reports", to_json(figures)}});
}

void SessionReport::ended(const data::Cursor& at, const std::string& how, std::uint64_t skipped) {
  write({{"event", how}, {"epoch", at.epoch}, {"step", at.step}, {"skipped", skipped}});
}

}  // namespace muster::trainer
