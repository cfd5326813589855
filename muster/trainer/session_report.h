// What a session of a user's program says of its steps and figures: rows of metrics.jsonl, as `muster train` has them
// (run_report.h), for `muster status`, scripts and plots. No torch here.
//
// Every worker may have one; the worker that leads writes. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/json_fwd.h"
#include "muster/compute/figures.h"
#include "muster/data/lane_plan.h"
#include "muster/observe/metrics_log.h"
#include "muster/strategies/step_outcome.h"
#include "muster/trainer/metrics.h"
#include "muster/trainer/step_rows.h"

namespace muster::trainer {

class SessionReport {
 public:
  using Warn = std::function<void(const std::string&)>;

  // The file is opened with the first row; rows go behind those that stand in it. One that cannot be opened or written
  // costs its rows and one warning.
  SessionReport(std::filesystem::path file, Warn warn) : file_(std::move(file)), warn_(std::move(warn)) {}

  struct Step {
    data::Cursor at{};  // where it began
    std::uint64_t steps_per_epoch = 1;
    double lr = 0;
    double seconds = 0;
    std::uint64_t skipped = 0;  // steps, so far
  };
  // Not every step has a row: about a hundred of an epoch (step_rows.h), or of as many steps as the largest power of
  // ten that has been trained, if that is more.
  void step(const Step& step, const strategies::StepOutcome& outcome);
  // Of the model after `at.step` steps.
  void evaluation(const data::Cursor& at, const Evaluation& result);
  void measured(const data::Cursor& at, const compute::Figures& figures);
  // `how`: "finished" or "interrupted".
  void ended(const data::Cursor& at, const std::string& how, std::uint64_t skipped);

 private:
  void write(const Json& row);

  const std::filesystem::path file_;
  const Warn warn_;
  StepRows rows_;
  std::optional<observe::MetricsLog> log_;
  bool broken_ = false;
};

}  // namespace muster::trainer
