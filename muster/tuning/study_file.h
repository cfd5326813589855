// The study file: what `muster tune` reads. Every key is described once here, by a schema as job files have it; [space]
// and [[points]] name keys of a job, which only who knows jobs can check. docs/tuning.md has the user's side.
//
//   [study]     what is searched: a job file or a program, objectives, seed, where it is kept
//   [budget]    what it may spend           [trials]  what a trial gets
//   [search]    name and options of the searcher     [schedule]  the same of the scheduler
//   [space]     space.h                     [[points]]  values to try first
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/config.h"
#include "muster/base/error.h"
#include "muster/tuning/study_plan.h"

namespace muster::tuning {

struct StudyFile {
  std::string name{};
  std::string job{};                   // a job file, as seen from the study file
  std::vector<std::string> program{};  // instead: a program and its arguments. Neither: for ask and tell
  std::vector<std::string> objectives{"loss"};
  std::vector<std::string> goals{};  // one for each; empty: by the names
  std::int64_t seed = 1;
  std::string folder = "studies";
  std::int64_t retries = 2;
  std::string keep = "best";
  std::vector<std::string> warm_start{};

  struct {
    std::int64_t trials = 0;
    std::int64_t epochs = 0;
    double processor_minutes = 0;
    double minutes = 0;
  } budget{};

  struct {
    std::optional<AutoInteger> parallel{};
    std::optional<std::int64_t> workers{};
    std::int64_t threads = 1;
    std::int64_t epochs = 1;  // of a program: what {until} counts to
  } trials{};

  SearcherChoice searcher = all_searchers().front();
  SchedulerChoice scheduler = all_schedulers().front();
  Space space{};
  std::vector<Assignment> points{};

  std::string path{};  // of the file
  // Of the keys in [space], and of others as "[search] name".
  std::map<std::string, std::uint64_t> lines{};

  // "study.toml:12" of such a key; the file alone for one that does not stand there.
  std::string where(std::string_view key) const;
  // Throws Error{kInvalidInput} with the place for a searcher or a scheduler that cannot work on `plan`.
  void check_choices(const StudyPlan& plan) const;
  // The plan, without what only the job knows: max_resource and subject. Throws Error{kInvalidInput} for a study that
  // would never end, and as SearcherChoice::make.
  StudyPlan plan() const;
};

// Throws Error{kInvalidInput} with "file:line", key, what was found and what is allowed; as Schema::load_file.
StudyFile read_study_file(const std::filesystem::path& path);
StudyFile parse_study_file(std::string_view text, const std::string& name);

// Where nobody says: accuracy and the like grow, losses and errors fall.
Goal usual_goal(std::string_view metric);

// Tables of all sections with their keys, for docs/tuning.md.
std::string study_file_reference();

}  // namespace muster::tuning
