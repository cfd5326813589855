// A plan as JSON and back. Options of searchers and schedulers are kept as the TOML that their own keys print and read,
// so that nothing here knows of them.
#include "muster/tuning/study_plan.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/config.h"

namespace muster::tuning {
namespace {

constexpr const char* kOptions = "options";

template <typename AnyChoice>
std::string text_of(AnyChoice choice) {
  Schema schema;
  choice.add_keys(schema.section(kOptions, ""));
  return schema.to_toml();
}

template <typename AnyChoice>
AnyChoice with_options(AnyChoice choice, const std::string& options) {
  Schema schema;
  choice.add_keys(schema.section(kOptions, ""));
  schema.load_text(options, "the study's store");
  return choice;
}

template <typename AnyChoice>
Json chosen(const AnyChoice& choice) {
  return {{"name", choice.name()}, {"options", options_text(choice)}};
}

Json objectives_json(const std::vector<Objective>& objectives) {
  Json json = Json::array();
  for (const Objective& objective : objectives)
    json.push_back({{"metric", objective.metric}, {"maximise", objective.goal == Goal::kMaximise}});
  return json;
}

}  // namespace

std::vector<Goal> StudyPlan::goals() const {
  std::vector<Goal> goals;
  for (const Objective& objective : objectives)
    goals.push_back(objective.goal);
  return goals;
}

SearchProblem StudyPlan::search_problem() const {
  SearchProblem problem;
  problem.space = space;
  problem.goals = goals();
  problem.seed = seed;
  problem.points = points;
  problem.known = known;
  problem.trials = budget.trials;
  return problem;
}

ScheduleProblem StudyPlan::schedule_problem() const {
  ScheduleProblem problem;
  problem.space = space;
  problem.goals = goals();
  problem.seed = seed;
  problem.max_resource = max_resource;
  // A bracket that waits for more trials than there will be would never be judged.
  problem.trials = budget.trials;
  const std::optional<std::uint64_t> most = searcher.make(search_problem())->most();
  if (most && (problem.trials == 0 || *most < problem.trials)) problem.trials = *most;
  return problem;
}

Json StudyPlan::json() const {
  Json json{{"format", 1},
            {"name", name},
            {"space", space.json()},
            {"objectives", objectives_json(objectives)},
            {"seed", seed},
            {"max_resource", max_resource},
            {"search", chosen(searcher)},
            {"schedule", chosen(scheduler)},
            {"budget",
             {{"trials", budget.trials},
              {"epochs", budget.epochs},
              {"processor_seconds", budget.processor_seconds},
              {"seconds", budget.seconds}}},
            {"retries", retries},
            {"subject", subject}};
  json["points"] = Json::array();
  for (const Assignment& point : points)
    json["points"].push_back(point.json());
  json["known"] = Json::array();
  for (const Known& one : known)
    json["known"].push_back({{"values", one.values.json()}, {"result", one.result}});
  return json;
}

StudyPlan StudyPlan::from_json(const Json& json, const std::string& where) {
  const auto format = json_get<std::uint64_t>(json, "format", where);
  if (format != 1)
    throw Error(ErrorKind::kUnsupported, fmt::format("is a study of format {}, made by a newer Muster", format), where,
                "Use the version of Muster that began the study.");
  StudyPlan plan;
  plan.name = json_get<std::string>(json, "name", where);
  plan.space = Space::from_json(json_get<Json>(json, "space", where), where);
  plan.objectives.clear();
  for (const Json& objective : json_get<std::vector<Json>>(json, "objectives", where))
    plan.objectives.push_back({json_get<std::string>(objective, "metric", where),
                               json_get<bool>(objective, "maximise", where) ? Goal::kMaximise : Goal::kMinimise});
  plan.seed = json_get<std::uint64_t>(json, "seed", where);
  plan.max_resource = json_get<std::uint64_t>(json, "max_resource", where);
  const Json search = json_get<Json>(json, "search", where);
  plan.searcher =
      searcher_from(json_get<std::string>(search, "name", where), json_get<std::string>(search, "options", where));
  const Json schedule = json_get<Json>(json, "schedule", where);
  plan.scheduler =
      scheduler_from(json_get<std::string>(schedule, "name", where), json_get<std::string>(schedule, "options", where));
  const Json budget = json_get<Json>(json, "budget", where);
  plan.budget.trials = json_get<std::uint64_t>(budget, "trials", where);
  plan.budget.epochs = json_get<std::uint64_t>(budget, "epochs", where);
  plan.budget.processor_seconds = json_get<double>(budget, "processor_seconds", where);
  plan.budget.seconds = json_get<double>(budget, "seconds", where);
  plan.retries = json_get<std::uint64_t>(json, "retries", where);
  plan.subject = json_get<Json>(json, "subject", where);
  for (const Json& point : json_get<std::vector<Json>>(json, "points", where))
    plan.points.push_back(Assignment::from_json(point, where));
  for (const Json& one : json_get<std::vector<Json>>(json, "known", where))
    plan.known.push_back({Assignment::from_json(json_get<Json>(one, "values", where), where),
                          json_get<std::vector<double>>(one, "result", where)});
  return plan;
}

std::string options_text(const SearcherChoice& choice) {
  return text_of(choice);
}
std::string options_text(const SchedulerChoice& choice) {
  return text_of(choice);
}

SearcherChoice searcher_from(const std::string& name, const std::string& options) {
  return with_options(searcher_named(name), options);
}
SchedulerChoice scheduler_from(const std::string& name, const std::string& options) {
  return with_options(scheduler_named(name), options);
}

std::optional<Error> resume_obstacle(const StudyPlan& stored, const StudyPlan& now) {
  const Json was = stored.json();
  const Json is = now.json();
  for (const auto& [part, value] : was.items()) {
    if (part == "budget" || part == "retries" || part == "known") continue;
    if (value == is.at(part)) continue;
    const std::string what = part == "subject" ? "the job file or the program" : fmt::format("\"{}\"", part);
    return Error(ErrorKind::kMismatch,
                 fmt::format("{} is not what the study was begun with; its results would not compare", what), {},
                 "Change it back, or begin a study of another name. The budget may change.");
  }
  return std::nullopt;
}

}  // namespace muster::tuning
