// Only looks: a study at work is not disturbed by it.
// What is computed here (importance, fronts) is computed from the events alone, so it is the same for everybody.
#include "muster/cli/tune/show.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/counted.h"
#include "muster/base/files.h"
#include "muster/base/text.h"
#include "muster/cli/csv_text.h"
#include "muster/cli/output_file.h"
#include "muster/cli/progress.h"
#include "muster/cli/tune/study_page.h"
#include "muster/cli/tune/study_place.h"
#include "muster/cli/tune/study_plots.h"
#include "muster/cli/tune/study_view.h"
#include "muster/control/write_ahead.h"
#include "muster/tuning/importance.h"
#include "muster/tuning/pareto.h"
#include "muster/tuning/study_log.h"

namespace muster::cli {
namespace {

using tuning::Trial;

struct StudyShowFlags {
  std::string study;
  bool json = false;
  bool csv = false;
  std::string html;
  std::string svg;
  std::size_t top = 20;
};

void write_file(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

// The best first; of two objectives those on the front, and of equals in the first objective the better one in the
// second. Those without a result last.
std::vector<const Trial*> by_outcome(const tuning::StudyLog& log, const std::vector<std::uint64_t>& front) {
  std::vector<const Trial*> trials;
  for (const Trial& trial : log.history().trials())
    trials.push_back(&trial);
  const std::vector<tuning::Goal> goals = log.plan().goals();
  std::ranges::stable_sort(trials, {}, [&](const Trial* trial) {
    const bool behind = std::ranges::find(front, trial->number) == front.end();
    std::vector<double> losses(goals.size(), HUGE_VAL);
    for (std::size_t i = 0; trial->outcome() != nullptr && i < goals.size(); ++i)
      losses[i] = tuning::loss(trial->outcome()->at(i), goals[i]);
    return std::pair(behind, std::move(losses));
  });
  return trials;
}

// Of two objectives; of one there is none.
std::vector<std::uint64_t> front_of(const tuning::StudyLog& log) {
  if (log.plan().objectives.size() != 2) return {};
  return tuning::pareto_front(log.history(), log.plan().goals());
}

void print_csv(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  std::string text = "trial,state";
  for (const tuning::Objective& objective : plan.objectives)
    text += "," + csv_field(objective.metric);
  text += ",epochs,seconds,processor_seconds";
  for (const tuning::Parameter& parameter : plan.space.parameters())
    text += "," + csv_field(parameter.name);
  fmt::print("{},reason\n", text);
  for (const Trial& trial : log.history().trials()) {
    std::string line = fmt::format("{},{}", trial.number, tuning::to_string(trial.state));
    for (std::size_t i = 0; i < plan.objectives.size(); ++i)
      line += trial.outcome() != nullptr ? fmt::format(",{}", trial.outcome()->at(i)) : ",";
    const tuning::TrialNotes& notes = log.notes(trial.number);
    line += fmt::format(",{},{},{}", trial.resource(), notes.seconds, notes.processor_seconds);
    for (const tuning::Parameter& parameter : plan.space.parameters()) {
      const tuning::Value* value = trial.values.find(parameter.name);
      line += "," + (value != nullptr ? csv_field(tuning::to_text(*value)) : "");
    }
    fmt::print("{},{}\n", line, csv_field(trial.reason));
  }
}

void print_json(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  Json shares = Json::object();
  for (const tuning::Importance& one :
       tuning::importance(plan.space, log.history(), 0, plan.objectives.front().goal, plan.seed))
    shares[one.name] = one.share;
  Json head{{"study", plan.name}, {"plan", plan.json()}, {"importance", shares}};
  if (plan.objectives.size() == 2)
    head["front"] = front_of(log);
  else if (const auto best = tuning::best_trial(log.history(), 0, plan.objectives.front().goal))
    head["best"] = *best;
  fmt::print("{}\n", head.dump());
  for (const Trial& trial : log.history().trials()) {
    Json row = trial_row(trial, log.notes(trial.number), plan);
    row["reports"] = Json::array();
    for (const tuning::Report& report : trial.reports)
      row["reports"].push_back({{"epoch", report.resource}, {"values", report.values}});
    fmt::print("{}\n", row.dump());
  }
}

void print_table(const tuning::StudyLog& log, std::size_t top) {
  const tuning::StudyPlan& plan = log.plan();
  fmt::print("{}: {}, {} ended; search {}, schedule {}\n", plan.name, counted(log.history().size(), "trial"),
             log.history().ended().size(), plan.searcher.name(), plan.scheduler.name());
  const std::vector<tuning::Importance> shares =
      tuning::importance(plan.space, log.history(), 0, plan.objectives.front().goal, plan.seed);
  if (shares.empty()) fmt::print("  results are too few, or too much alike, to tell which keys matter\n");
  for (const tuning::Importance& one : shares)
    fmt::print("  {:<28} explains {:4.1f} % of the variance\n", one.name, 100 * one.share);
  const std::vector<std::uint64_t> front = front_of(log);
  if (!front.empty())
    fmt::print("  the front, of which none is worse in both, is first: {}\n", counted(front.size(), "trial"));
  std::string figures;
  for (const tuning::Objective& objective : plan.objectives)
    figures += fmt::format("{:>12}  ", excerpt(objective.metric, 12));
  fmt::print("{:>6}  {:<9} {}{:>6}  {}\n", "trial", "state", figures, "epochs", "values");
  const std::vector<const Trial*> trials = by_outcome(log, front);
  for (std::size_t i = 0; i < std::min(top, trials.size()); ++i) {
    const Trial& trial = *trials[i];
    std::string values;
    for (std::size_t k = 0; k < plan.objectives.size(); ++k)
      values +=
          fmt::format("{:>12}  ", trial.outcome() != nullptr ? fmt::format("{:.6g}", trial.outcome()->at(k)) : "-");
    fmt::print("{:>6}  {:<9} {}{:>6}  {}\n", trial.number, tuning::to_string(trial.state), values, trial.resource(),
               trial.state == tuning::State::kFailed ? trial.values.text() + ": " + trial.reason : trial.values.text());
  }
  if (trials.size() > top) fmt::print("and {} more (--top {})\n", trials.size() - top, trials.size());
}

void write_plots(const tuning::StudyLog& log, const std::filesystem::path& folder) {
  const tuning::StudyPlan& plan = log.plan();
  make_folder(folder);
  write_file(folder / "history.svg", plot_history(plan, log.history()));
  write_file(folder / "parallel.svg", plot_parallel(plan, log.history()));
  write_file(folder / "slices.svg", plot_slices(plan, log.history()));
  write_file(folder / "importance.svg", plot_importance(tuning::importance(plan.space, log.history(), 0,
                                                                           plan.objectives.front().goal, plan.seed)));
  if (plan.objectives.size() == 2) write_file(folder / "front.svg", plot_front(plan, log.history()));
}

void show_study(const StudyShowFlags& flags) {
  const tuning::StudyLog log(control::make_write_ahead_store(store_of(find_study(flags.study)), {.create = false}));
  if (!flags.html.empty()) write_file(flags.html, study_page(log));
  if (!flags.svg.empty()) write_plots(log, flags.svg);
  if (flags.json) return print_json(log);
  if (flags.csv) return print_csv(log);
  if (flags.html.empty() && flags.svg.empty()) print_table(log, flags.top);
}

}  // namespace

void add_tune_show(CLI::App& tune) {
  CLI::App* command = tune.add_subcommand("show", "A study: its trials, what mattered, plots.");
  auto flags = std::make_shared<StudyShowFlags>();
  command->add_option("study", flags->study, "The study's folder, its name below studies, or its file")->required();
  command->add_option("--top", flags->top, "So many trials of the table, the best first")->capture_default_str();
  CLI::Option* json = command->add_flag("--json", flags->json, "The study and each trial as a JSON object a line");
  command->add_flag("--csv", flags->csv, "The trials as CSV")->excludes(json);
  command->add_option("--html", flags->html, "Write a page with plots and all trials into this file");
  command->add_option("--svg", flags->svg,
                      "Write history.svg, parallel.svg, slices.svg, importance.svg (and front.svg) into this folder");
  command->footer(
      "importance is fANOVA: the share of the variance that a key alone explains, on a random forest.\n"
      "\nExamples:\n"
      "  muster tune show fashion\n"
      "  muster tune show studies/fashion --html report.html\n"
      "  muster tune show fashion --csv > trials.csv");
  command->callback([flags] { show_study(*flags); });
}

}  // namespace muster::cli
