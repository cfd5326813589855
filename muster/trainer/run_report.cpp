// Rows for programs are thinned (step_rows.h); observers hear of every step. What a row has is here and nowhere else:
// docs/operations.md names its members.
#include "muster/trainer/run_report.h"

namespace muster::trainer {

void RunReport::step(const data::Cursor& at, double lr, double seconds, const strategies::StepOutcome& outcome,
                     const Progress& progress, TrainingObserver& observer) {
  const std::uint64_t per_epoch = data::steps_per_epoch(shape_);
  const std::uint64_t in_epoch = at.position / shape_.batch + 1;
  if (const std::optional<StepsTold> told = rows_.add(in_epoch, per_epoch, outcome, seconds)) {
    write({{"event", "step"},
           {"epoch", at.epoch},
           {"step", at.step + 1},
           {"loss", told->loss},
           {score_, told->mean_score()},
           {"lr", lr},
           {"gradient_norm", told->gradient_norm},
           {"samples", static_cast<std::uint64_t>(told->samples)},
           {"samples_per_s", told->samples_per_second()},
           {"skipped", progress.skipped.total}});
  }
  TrainingObserver::Step event;
  event.epoch = at.epoch;
  event.step = at.step + 1;
  event.step_in_epoch = in_epoch;
  event.loss = progress.mean_loss();
  event.score = progress.mean_score();
  event.lr = lr;
  event.samples = outcome.samples;
  event.skipped = progress.skipped.total;
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
