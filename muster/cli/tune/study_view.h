// What a person sees of a study at work: a table that is redrawn on a terminal, plain lines on a pipe, JSON for
// scripts, or nothing.
//
// Thread safety: one thread.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/json.h"
#include "muster/cli/progress.h"
#include "muster/tuning/tuner.h"

namespace muster::cli {

class StudyView final : public tuning::TunerObserver {
 public:
  // `width` gives the terminal's.
  StudyView(ProgressStyle style, const tuning::StudyLog& log, std::size_t slots, std::FILE* out,
            std::function<int()> width, const Clock& clock = system_clock());
  ~StudyView() override;

  void begun(const tuning::Trial& trial) override;
  void reported(const tuning::Trial& trial) override;
  void rested(const tuning::Trial& trial) override;
  void lost(const tuning::Trial& trial, const std::string& reason) override;
  void waits(const std::string& reason) override;
  void looked(const tuning::StudyLog& log, const tuning::Spent& spent) override;
  // The last that is told. `folder`: of the study.
  void finished(const tuning::TunerResult& result, const std::string& folder, const std::string& resume);

 private:
  void say(const std::string& line);
  void json(const Json& row);
  void erase_table();
  void draw_table(const tuning::Spent& spent);
  std::optional<std::uint64_t> best() const;
  std::string best_text() const;
  std::string figures(const tuning::Trial& trial) const;

  const ProgressStyle style_;
  const tuning::StudyLog& log_;
  const std::size_t slots_;
  std::FILE* const out_;
  const std::function<int()> width_;
  const Clock& clock_;
  const Clock::Instant begun_at_;
  const tuning::Spent before_;
  std::size_t drawn_ = 0;  // lines of the table that stand on the terminal
};

// A row of --json and --csv about a trial.
Json trial_row(const tuning::Trial& trial, const tuning::TrialNotes& notes, const tuning::StudyPlan& plan);

}  // namespace muster::cli
