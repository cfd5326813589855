// What a run says of its steps, validations and end: rows of metrics.jsonl for programs, events for whoever watches.
//
// Every worker has one; only that of the leader writes, from open() on, and of those who keep copies of the run on
// other hosts; and only the leader gives an observer that listens. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/json.h"
#include "muster/data/lane_plan.h"
#include "muster/observe/metrics_log.h"
#include "muster/strategies/strategy.h"
#include "muster/trainer/progress.h"
#include "muster/trainer/step_rows.h"
#include "muster/trainer/trainer.h"

namespace muster::trainer {

class RunReport {
 public:
  // `score`: Task::score_name.
  RunReport(std::string score, const data::BatchShape& shape) : score_(std::move(score)), shape_(shape) {}

  // Throws as MetricsLog.
  void open(const std::filesystem::path& file, observe::MetricsLog::OnLoss on_loss) {
    metrics_.emplace(file, std::move(on_loss));
  }
  void close() { metrics_.reset(); }
  bool opened() const { return metrics_.has_value(); }
  // A row, if it is opened.
  void write(const Json& row) {
    if (metrics_) metrics_->write(row);
  }

  // A step that began `at`, with `lr`, and took `seconds`. Not every step has a row: about a hundred in an epoch have.
  void step(const data::Cursor& at, double lr, double seconds, const strategies::StepOutcome& outcome,
            const Progress& progress, TrainingObserver& observer);
  void validation(const TrainingObserver::Validation& event, TrainingObserver& observer);
  void finished(const TrainingResult& result, std::uint64_t bad_samples);

 private:
  const std::string score_;
  const data::BatchShape shape_;
  std::optional<observe::MetricsLog> metrics_;
  StepRows rows_;
};

}  // namespace muster::trainer
