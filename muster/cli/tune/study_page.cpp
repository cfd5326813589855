// The page is text with pictures in it: no script, no style sheet from elsewhere.
// So it opens from a disk, in mail, and in ten years. All words from outside are escaped.
#include "muster/cli/tune/study_page.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "muster/cli/tune/study_plots.h"
#include "muster/tuning/importance.h"
#include "muster/tuning/pareto.h"

namespace muster::cli {
namespace {

using tuning::Trial;

constexpr const char* kStyle =
    "body{font-family:sans-serif;margin:2em auto;max-width:76em;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;font-size:0.9em}td,th{padding:0.25em 0.7em;border-bottom:1px solid #ddd;"
    "text-align:left}th{background:#f2f4f7}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "tr.best td{background:#eaf3ea}figure{margin:1.5em 0;overflow-x:auto}.quiet{color:#666}";

// The best trial, if there is one; of two objectives those on the front.
std::vector<std::uint64_t> best_ones(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  if (plan.objectives.size() == 2) return tuning::pareto_front(log.history(), plan.goals());
  const auto best = tuning::best_trial(log.history(), 0, plan.objectives.front().goal);
  return best ? std::vector{*best} : std::vector<std::uint64_t>{};
}

std::string study_summary(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  const tuning::History& history = log.history();
  const auto count = [&](tuning::State state) { return std::ranges::count(history.trials(), state, &Trial::state); };
  std::string text = fmt::format(
      "<p>Search: {}, schedule: {}, seed {}. {} trials: {} finished, {} stopped early, {} failed, {} under way or "
      "paused.</p>\n",
      escaped(plan.searcher.name()), escaped(plan.scheduler.name()), plan.seed, history.size(),
      count(tuning::State::kFinished), count(tuning::State::kStopped), count(tuning::State::kFailed),
      history.size() - history.ended().size());
  for (const std::uint64_t best : best_ones(log)) {
    std::string figures;
    for (std::size_t i = 0; i < plan.objectives.size(); ++i)
      figures += fmt::format("{}{} {:.6g}", i == 0 ? "" : ", ", escaped(plan.objectives[i].metric),
                             history.at(best).outcome()->at(i));
    text += fmt::format("<p>{}: <b>{}</b>, trial {}: <code>{}</code></p>\n",
                        plan.objectives.size() == 2 ? "On the front" : "Best", figures, best,
                        escaped(history.at(best).values.text()));
  }
  return text;
}

std::string trials_table(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  std::string text = "<table>\n<tr><th>trial</th><th>state</th>";
  for (const tuning::Objective& objective : plan.objectives)
    text += fmt::format("<th>{}</th>", escaped(objective.metric));
  text += "<th>epochs</th><th>seconds</th>";
  for (const tuning::Parameter& parameter : plan.space.parameters())
    text += fmt::format("<th>{}</th>", escaped(parameter.name));
  text += "<th>why</th></tr>\n";
  const std::vector<std::uint64_t> best = best_ones(log);
  for (const Trial& trial : log.history().trials()) {
    const bool is_best = std::ranges::find(best, trial.number) != best.end();
    text += fmt::format("<tr{}><td class=\"n\">{}</td><td>{}</td>", is_best ? " class=\"best\"" : "", trial.number,
                        tuning::to_string(trial.state));
    const std::vector<double>* outcome = trial.outcome();
    for (std::size_t i = 0; i < plan.objectives.size(); ++i)
      text += fmt::format("<td class=\"n\">{}</td>", outcome != nullptr ? fmt::format("{:.6g}", outcome->at(i)) : "");
    text += fmt::format("<td class=\"n\">{}</td><td class=\"n\">{:.1f}</td>", trial.resource(),
                        log.notes(trial.number).seconds);
    for (const tuning::Parameter& parameter : plan.space.parameters()) {
      const tuning::Value* value = trial.values.find(parameter.name);
      text += fmt::format("<td class=\"n\">{}</td>", value != nullptr ? escaped(tuning::to_text(*value)) : "");
    }
    text += fmt::format("<td class=\"quiet\">{}</td></tr>\n", escaped(trial.reason));
  }
  return text + "</table>\n";
}

}  // namespace

std::string study_page(const tuning::StudyLog& log) {
  const tuning::StudyPlan& plan = log.plan();
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>\n"
      "<body><h1>{0}</h1>\n",
      escaped(plan.name), kStyle);
  text += study_summary(log);
  const auto figure = [&](const std::string& svg) { text += "<figure>" + svg + "</figure>\n"; };
  figure(plot_history(plan, log.history()));
  if (plan.objectives.size() == 2) figure(plot_front(plan, log.history()));
  figure(plot_importance(tuning::importance(plan.space, log.history(), 0, plan.objectives.front().goal, plan.seed)));
  figure(plot_parallel(plan, log.history()));
  figure(plot_slices(plan, log.history()));
  return text + trials_table(log) + "</body></html>\n";
}

}  // namespace muster::cli
