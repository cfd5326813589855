// Lines that stay tell what happened; the table below them tells how things stand, and is drawn anew each second.
// Nothing here decides: who wants to know why asks the trial's reason.
#include "muster/cli/tune/study_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/counted.h"
#include "muster/base/text.h"
#include "muster/tuning/pareto.h"

namespace muster::cli {
namespace {

using tuning::State;
using tuning::Trial;

constexpr std::size_t kMostRows = 12;

std::string duration_text(double seconds) {
  return human_duration(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

std::size_t count_of(const tuning::History& history, State state) {
  return static_cast<std::size_t>(std::ranges::count(history.trials(), state, &Trial::state));
}

}  // namespace

Json trial_row(const Trial& trial, const tuning::TrialNotes& notes, const tuning::StudyPlan& plan) {
  Json row{{"trial", trial.number}, {"state", tuning::to_string(trial.state)}, {"values", trial.values.json()}};
  const std::vector<double>* outcome = trial.outcome();
  for (std::size_t i = 0; i < plan.objectives.size(); ++i)
    row[plan.objectives[i].metric] = outcome != nullptr ? Json(outcome->at(i)) : Json();
  row["epochs"] = trial.resource();
  row["seconds"] = notes.seconds;
  row["processor_seconds"] = notes.processor_seconds;
  row["start_seconds"] = notes.start_seconds;
  if (trial.lineage) row["from"] = {{"trial", trial.lineage->parent}, {"epoch", trial.lineage->resource}};
  row["reason"] = trial.reason;
  return row;
}

StudyView::StudyView(ProgressStyle style, const tuning::StudyLog& log, std::size_t slots, std::FILE* out,
                     std::function<int()> width, const Clock& clock)
    : style_(style),
      log_(log),
      slots_(slots),
      out_(out),
      width_(std::move(width)),
      clock_(clock),
      begun_at_(clock.now()),
      before_(log.spent()) {
}

StudyView::~StudyView() {
  erase_table();
  std::fflush(out_);
}

void StudyView::say(const std::string& line) {
  if (style_ == ProgressStyle::kQuiet || style_ == ProgressStyle::kJson) return;
  erase_table();
  fmt::print(out_, "{}\n", line);
  std::fflush(out_);
}

void StudyView::json(const Json& row) {
  if (style_ != ProgressStyle::kJson) return;
  fmt::print(out_, "{}\n", row.dump());
  std::fflush(out_);
}

std::string StudyView::figures(const Trial& trial) const {
  const std::vector<double>* outcome = trial.outcome();
  if (outcome == nullptr) return "-";
  std::string text;
  for (std::size_t i = 0; i < outcome->size(); ++i)
    text += fmt::format("{}{} {:.5g}", i == 0 ? "" : "  ", log_.plan().objectives[i].metric, (*outcome)[i]);
  return text;
}

// Of two objectives there is no best.
std::optional<std::uint64_t> StudyView::best() const {
  if (log_.plan().objectives.size() != 1) return std::nullopt;
  return tuning::best_trial(log_.history(), 0, log_.plan().objectives.front().goal);
}

std::string StudyView::best_text() const {
  if (log_.plan().objectives.size() == 2)
    return "front of " + counted(tuning::pareto_front(log_.history(), log_.plan().goals()).size(), "trial");
  const auto best = this->best();
  if (!best) return "no result yet";
  return fmt::format("best {} (trial {})", figures(log_.history().at(*best)), *best);
}

void StudyView::begun(const Trial& trial) {
  const bool again = trial.resource() > (trial.lineage ? trial.lineage->resource : 0);
  if (again)
    say(fmt::format("trial {} goes on from epoch {}", trial.number, trial.resource()));
  else
    say(fmt::format("trial {} begins: {}", trial.number, trial.values.text()));
  json({{"event", "begun"}, {"trial", trial.number}, {"values", trial.values.json()}, {"epochs", trial.resource()}});
}

void StudyView::reported(const Trial& trial) {
  Json row{{"event", "report"}, {"trial", trial.number}, {"epoch", trial.resource()}};
  for (std::size_t i = 0; i < log_.plan().objectives.size(); ++i)
    row[log_.plan().objectives[i].metric] = trial.reports.back().values.at(i);
  json(row);
}

void StudyView::rested(const Trial& trial) {
  const std::string why = trial.state == State::kFinished || trial.reason.empty() ? "" : " (" + trial.reason + ")";
  say(fmt::format("trial {} {}: {} after {}{}; {}", trial.number, tuning::to_string(trial.state), figures(trial),
                  counted(trial.resource(), "epoch"), why, best_text()));
  Json row = trial_row(trial, log_.notes(trial.number), log_.plan());
  row["event"] = tuning::to_string(trial.state);
  json(row);
}

void StudyView::lost(const Trial& trial, const std::string& reason) {
  if (!reason.empty()) say(fmt::format("trial {} will be begun again: {}", trial.number, reason));
  json({{"event", "lost"}, {"trial", trial.number}, {"reason", reason}});
}

void StudyView::waits(const std::string& reason) {
  say(fmt::format("waits for the study's store: {}", reason));
  json({{"event", "waits"}, {"reason", reason}});
}

void StudyView::looked(const tuning::StudyLog&, const tuning::Spent& spent) {
  if (style_ != ProgressStyle::kLive) return;
  erase_table();
  draw_table(spent);
  std::fflush(out_);
}

void StudyView::erase_table() {
  if (drawn_ > 0) fmt::print(out_, "\x1b[{}A\r\x1b[J", drawn_);
  drawn_ = 0;
}

void StudyView::draw_table(const tuning::Spent& spent) {
  const tuning::History& history = log_.history();
  const auto room = static_cast<std::size_t>(std::max(20, width_() - 1));
  const auto line = [&](const std::string& text) {
    fmt::print(out_, "{}\n", excerpt(text, room));
    ++drawn_;
  };
  const double elapsed = std::chrono::duration<double>(clock_.now() - begun_at_).count();
  const std::uint64_t ended = history.ended().size();
  const auto left = tuning::seconds_left(log_.plan().budget, before_, spent, elapsed);
  line(fmt::format("{}: {}{} trials ended, {} run, {} paused, {} failed; {}; {}{}", log_.plan().name, ended,
                   log_.plan().budget.trials > 0 ? fmt::format(" of {}", log_.plan().budget.trials) : "",
                   count_of(history, State::kRunning), count_of(history, State::kPaused),
                   count_of(history, State::kFailed), best_text(), duration_text(elapsed),
                   left ? ", about " + duration_text(*left) + " left" : ""));
  line(fmt::format("{:>6}  {:>9}  {:<24}  {}", "trial", "epochs", "figures", "values"));
  std::size_t rows = 0;
  for (const Trial& trial : history.trials()) {
    if (trial.state != State::kRunning || ++rows > kMostRows) continue;
    line(fmt::format("{:>6}  {:>9}  {:<24}  {}", trial.number,
                     fmt::format("{}/{}", trial.resource(), log_.plan().max_resource), figures(trial),
                     trial.values.text()));
  }
}

void StudyView::finished(const tuning::TunerResult& result, const std::string& folder, const std::string& resume) {
  const auto best = this->best();
  say(fmt::format("{}: {}; {}, {} failed", log_.plan().name, result.reason, counted(log_.history().size(), "trial"),
                  count_of(log_.history(), State::kFailed)));
  if (best) say(fmt::format("{}: {}", best_text(), log_.history().at(*best).values.text()));
  if (log_.plan().objectives.size() == 2) say(best_text() + ", of which none is worse in both");
  if (result.interrupted) say("go on with: " + resume);
  Json row{{"event", result.interrupted ? "interrupted" : "over"},
           {"study", folder},
           {"reason", result.reason},
           {"trials", log_.history().size()},
           {"failed", count_of(log_.history(), State::kFailed)}};
  if (log_.plan().objectives.size() == 2) row["front"] = tuning::pareto_front(log_.history(), log_.plan().goals());
  if (best) row["best"] = trial_row(log_.history().at(*best), log_.notes(*best), log_.plan());
  json(row);
}

}  // namespace muster::cli
