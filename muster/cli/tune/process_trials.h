// Trials as processes: each is a command of this program, run by a copy of this process, which saves what LibTorch does
// before main; what it prints goes into output.txt of its folder.
//
// Nothing is started where a trial's rows tell that it is done already: a tuner that was killed had not written it
// down. Workers of a killed tuner's trials go on for a while by themselves; the command takes them over. REQUIRES: this
// process has no threads that hold locks, and has computed nothing. Thread safety: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/cli/tune.h"
#include "muster/cli/tune/row_reader.h"
#include "muster/cli/tune/trial_subject.h"
#include "muster/launch/child_process.h"
#include "muster/tuning/study_log.h"
#include "muster/tuning/trial_executor.h"

namespace muster::cli {

class ProcessTrials final : public tuning::TrialExecutor {
 public:
  // `log`: for the ancestors of trials. `objectives_at`: where the objectives are named, for messages. All must outlive
  // it.
  ProcessTrials(TrialSubject& subject, const tuning::StudyLog& log, RunCommand run, bool keep_all,
                const std::filesystem::path& study, std::string objectives_at = {});

  void start(const tuning::Trial& trial, std::uint64_t until) override;
  void stop(std::uint64_t number) override;
  std::vector<tuning::TrialNews> wait(std::chrono::milliseconds longest) override;
  void ended(const tuning::Trial& trial) override;
  void best(const tuning::Trial& trial) override;

 private:
  struct Running {
    std::uint64_t until = 0;
    std::uint64_t told = 0;  // the largest resource that was told
    RowReader rows;
    std::unique_ptr<launch::ChildProcess> process{};  // none: it was done before
    Clock::Instant begun{};
    bool has_rows = false;
    double start_seconds = 0;              // from its start to its first row
    std::optional<tuning::Report> held{};  // at `until`: told when the process has ended
    std::optional<std::uint64_t> paused_at{};
    bool finished = false;
    std::uint64_t lost_steps = 0;      // in a row
    bool asked = false;                // to stop
    std::string hopeless{};            // why it was told to stop
    std::vector<std::string> lacks{};  // objectives that its last figures did not tell
    double earlier_seconds = 0;        // that it ran on for under a tuner that was killed
  };

  void start_process(std::uint64_t number, Running& running, const std::vector<std::string>& words);
  void look_at_rows(std::uint64_t number, Running& running, std::vector<tuning::TrialNews>& news);
  tuning::TrialNews judge_end(std::uint64_t number, const Running& running, const launch::Ending& ending) const;
  std::vector<tuning::Trial> ancestors_of(const tuning::Trial& trial) const;
  std::string last_words(std::uint64_t number) const;
  void link_best(std::uint64_t number) const;
  void require_objectives(const RowMeaning& meaning) const;
  double unheard_seconds(std::uint64_t number);
  bool may_be_copied(const tuning::Trial& trial) const;

  TrialSubject& subject_;
  const tuning::StudyLog& log_;
  const RunCommand run_;
  const bool keep_all_;
  const bool copies_;  // trials may begin with the state of others
  const std::filesystem::path study_;
  const std::string objectives_at_;
  std::map<std::uint64_t, Running> running_;
  std::vector<tuning::TrialNews> at_once_;         // of trials that could not even be started
  std::map<std::uint64_t, std::int64_t> counted_;  // unheard_since of trials whose time since then was told
  std::set<std::uint64_t> not_needed_;             // ended, and their state is still there
};

}  // namespace muster::cli
