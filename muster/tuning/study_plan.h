// What a study is: what may be chosen, what counts as better, who proposes, who stops, and how much may be spent.
//
// It stands in the study's store from the first moment on, so that every process that works on the study, now or after
// a crash, proposes the same. Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tuning/choice.h"
#include "muster/tuning/registry.h"
#include "muster/tuning/searcher.h"
#include "muster/tuning/space.h"
#include "muster/tuning/trial.h"

namespace muster::tuning {

struct Objective {
  std::string metric = "loss";  // its name in what a trial reports
  Goal goal = Goal::kMinimise;
  bool operator==(const Objective&) const = default;
};

// What a study may spend; 0: no limit of this kind. The first that is reached ends it.
struct Budget {
  std::uint64_t trials = 0;      // that are begun
  std::uint64_t epochs = 0;      // of all trials
  double processor_seconds = 0;  // of all processes of all trials
  double seconds = 0;            // in which the study works; of several processes at once each counts
  bool operator==(const Budget&) const = default;
};

struct StudyPlan {
  std::string name{};
  Space space{};
  std::vector<Objective> objectives{Objective{}};  // one, or two for a Pareto front
  std::uint64_t seed = 1;
  std::uint64_t max_resource = 1;  // what a trial gets at most: epochs of a job
  SearcherChoice searcher = all_searchers().front();
  SchedulerChoice scheduler = all_schedulers().front();
  Budget budget{};
  std::vector<Assignment> points{};  // tried first
  std::vector<Known> known{};        // of earlier studies
  std::uint64_t retries = 2;         // of a trial that dies, before it counts as failed
  Json subject = Json::object();     // what a trial is, for those who start it

  std::vector<Goal> goals() const;
  SearchProblem search_problem() const;
  // Throws as SearcherChoice::make.
  ScheduleProblem schedule_problem() const;

  Json json() const;
  // Throws kDamaged and kInvalidInput with `where`.
  static StudyPlan from_json(const Json& json, const std::string& where);
};

// The options of a searcher or a scheduler as TOML, and back. Throws kInvalidInput.
std::string options_text(const SearcherChoice& choice);
std::string options_text(const SchedulerChoice& choice);
SearcherChoice searcher_from(const std::string& name, const std::string& options);
SchedulerChoice scheduler_from(const std::string& name, const std::string& options);

// The first thing in which a study that is resumed with `now` differs from `stored`, as an Error; nothing when it can
// go on. Budget and retries may differ, and so may what is known of earlier studies: that is read once, at the start.
std::optional<Error> resume_obstacle(const StudyPlan& stored, const StudyPlan& now);

}  // namespace muster::tuning
