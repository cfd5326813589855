// Rows for programs are thinned to about a hundred an epoch, and what lies between two is summed up in the next;
// observers hear of every step.
#include "muster/trainer/run_report.h"

#include <algorithm>

namespace muster::trainer {
namespace {

constexpr std::uint64_t kRowsPerEpoch = 100;

}  // namespace

void RunReport::Untold::add(const strategies::StepOutcome& outcome, double its_seconds) {
  const auto count = static_cast<double>(outcome.samples);
  samples += count;
  score += outcome.score;
  seconds += its_seconds;
  loss += (outcome.loss - loss) * (count / std::max(samples, 1.0));
  if (outcome.gradient_norm != 0) gradient_norm = outcome.gradient_norm;
}

void RunReport::step(const data::Cursor& at, double lr, double seconds, const strategies::StepOutcome& outcome,
                     const Progress& progress, TrainingObserver& observer) {
  const std::uint64_t per_epoch = data::steps_per_epoch(shape_);
  const std::uint64_t in_epoch = at.position / shape_.batch + 1;
  const std::uint64_t interval = (per_epoch + kRowsPerEpoch - 1) / kRowsPerEpoch;
  if (outcome.synchronized) untold_ = {};
  untold_.add(outcome, seconds);
  const bool due = in_epoch % interval == 0 || in_epoch == per_epoch;
  if ((due && untold_.samples > 0) || !outcome.applied) {
    write({{"event", "step"},
           {"epoch", at.epoch},
           {"step", at.step + 1},
           {"loss", untold_.loss},
           {score_, untold_.score / std::max(untold_.samples, 1.0)},
           {"lr", lr},
           {"gradient_norm", untold_.gradient_norm},
           {"samples", static_cast<std::uint64_t>(untold_.samples)},
           {"samples_per_s", untold_.samples / std::max(untold_.seconds, 1e-9)},
           {"skipped", progress.skipped}});
    untold_ = {};
  }
  TrainingObserver::Step event;
  event.epoch = at.epoch;
  event.step = at.step + 1;
  event.step_in_epoch = in_epoch;
  event.loss = progress.mean_loss();
  event.score = progress.mean_score();
  event.lr = lr;
  event.samples = outcome.samples;
  event.skipped = progress.skipped;
  observer.step_committed(event);
}

void RunReport::validation(const TrainingObserver::Validation& event, TrainingObserver& observer) {
  Json row{{"event", "validation"},          {"set", event.set},
           {"epoch", event.epoch},           {"step", event.step},
           {"train_loss", event.train_loss}, {"train_" + score_, event.train_score},
           {"loss", event.result.loss},      {"best", event.best}};
  for (const Metric& metric : event.result.metrics)
    row[metric.name] = metric.value;
  write(row);
  observer.validated(event);
}

void RunReport::finished(const TrainingResult& result, std::uint64_t bad_samples) {
  Json row{{"event", "finished"},
           {"step", result.steps},
           {"early", result.end == TrainingResult::End::kEarly},
           {"test_loss", result.test.loss},
           {"best_step", result.best_step},
           {"seconds", result.seconds},
           {"samples_per_s", result.samples_per_s},
           {"skipped", result.skipped},
           {"bad_samples", bad_samples},
           {"weights", result.weights_hash}};
  for (const Metric& metric : result.test.metrics)
    row["test_" + metric.name] = metric.value;
  write(row);
}

}  // namespace muster::trainer
