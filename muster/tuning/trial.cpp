// The log of a study. Each call is hashed into a chain of digests, so that what a searcher has kept of a history can be
// told from what belongs to another one.
#include "muster/tuning/trial.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::tuning {
namespace {

constexpr std::string_view kStates[] = {"waiting", "running", "paused", "finished", "stopped", "failed"};

// splitmix64's mixing of one word into a chain.
std::uint64_t mixed(std::uint64_t chain, std::uint64_t word) {
  chain += 0x9e3779b97f4a7c15 + word;
  chain = (chain ^ (chain >> 30)) * 0xbf58476d1ce4e5b9;
  chain = (chain ^ (chain >> 27)) * 0x94d049bb133111eb;
  return chain ^ (chain >> 31);
}

std::uint64_t mixed(std::uint64_t chain, std::string_view text) {
  for (const char c : text)
    chain = (chain ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return mixed(chain, text.size());
}

std::uint64_t mixed_value(std::uint64_t chain, const Value& value) {
  chain = mixed(chain, value.index());
  if (const auto* text = std::get_if<std::string>(&value)) return mixed(chain, std::string_view(*text));
  if (const auto* number = std::get_if<double>(&value)) return mixed(chain, std::bit_cast<std::uint64_t>(*number));
  if (const auto* flag = std::get_if<bool>(&value)) return mixed(chain, std::uint64_t{*flag});
  return mixed(chain, static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
}

}  // namespace

std::string_view to_string(State state) {
  return kStates[static_cast<std::size_t>(state)];
}

State state_from_text(std::string_view text, const std::string& where) {
  for (std::size_t i = 0; i < std::size(kStates); ++i) {
    if (kStates[i] == text) return static_cast<State>(i);
  }
  throw Error(ErrorKind::kDamaged, fmt::format("no state of a trial: \"{}\"", text), where);
}

std::uint64_t Trial::resource() const {
  if (!reports.empty()) return reports.back().resource;
  return lineage ? lineage->resource : 0;
}

const std::vector<double>* Trial::outcome() const {
  if (state == State::kFailed) return nullptr;
  if (!result.empty()) return &result;
  return reports.empty() ? nullptr : &reports.back().values;
}

const Report* Trial::report_at(std::uint64_t resource) const {
  for (auto report = reports.rbegin(); report != reports.rend(); ++report) {
    if (report->resource <= resource) return &*report;
  }
  return nullptr;
}

const Trial& History::at(std::uint64_t number) const {
  MUSTER_CHECK(number < trials_.size(), "no such trial");
  return trials_[number];
}

Trial& History::change(std::uint64_t number) {
  MUSTER_CHECK(number < trials_.size(), "no such trial");
  MUSTER_CHECK(!tuning::ended(trials_[number].state), "the trial has ended");
  return trials_[number];
}

void History::enter(Trial& trial, State state) {
  if (trial.state == State::kWaiting) waiting_.erase(trial.number);
  if (trial.state == State::kRunning) running_.erase(trial.number);
  trial.state = state;
  if (state == State::kWaiting) waiting_.insert(trial.number);
  if (state == State::kRunning) running_.insert(trial.number);
  if (tuning::ended(state)) ended_.push_back(trial.number);
}

void History::record(std::uint64_t number, std::string_view what, const std::vector<double>& values) {
  std::uint64_t chain = mixed(mixed(digest(events()), number), what);
  for (const double value : values)
    chain = mixed(chain, std::bit_cast<std::uint64_t>(value));
  digests_.push_back(chain);
  subjects_.push_back(number);
}

void History::add(Trial trial) {
  MUSTER_CHECK(trial.number == trials_.size(), "trials are added with consecutive numbers");
  MUSTER_CHECK(trial.reports.empty() && !tuning::ended(trial.state), "a trial begins without results");
  record(trial.number, "add", {});
  std::uint64_t& chain = digests_.back();
  for (const auto& [name, value] : trial.values.entries())
    chain = mixed_value(mixed(chain, std::string_view(name)), value);
  chain = mixed(mixed(chain, trial.group), trial.lineage ? trial.lineage->parent + 1 : 0);
  if (!trial.lineage) ++originals_;
  trials_.push_back(std::move(trial));
  enter(trials_.back(), trials_.back().state);
}

void History::run(std::uint64_t number) {
  Trial& trial = change(number);
  if (trial.state == State::kPaused) trial.reason.clear();  // why it was paused is over
  enter(trial, State::kRunning);
  record(number, "run", {});
}

void History::lose(std::uint64_t number, std::uint64_t resource) {
  Trial& trial = change(number);
  while (!trial.reports.empty() && trial.reports.back().resource > resource)
    trial.reports.pop_back();
  enter(trial, State::kWaiting);
  record(number, "lose", {static_cast<double>(resource)});
}

void History::report(std::uint64_t number, Report report) {
  Trial& trial = change(number);
  MUSTER_CHECK(report.resource > trial.resource(), "reports have growing resources");
  record(number, "report", report.values);
  digests_.back() = mixed(digests_.back(), report.resource);
  trial.reports.push_back(std::move(report));
}

void History::pause(std::uint64_t number, std::string reason) {
  Trial& trial = change(number);
  enter(trial, State::kPaused);
  trial.reason = std::move(reason);
  record(number, "pause", {});
}

void History::finish(std::uint64_t number, std::vector<double> result) {
  Trial& trial = change(number);
  enter(trial, State::kFinished);
  record(number, "finish", result);
  trial.result = std::move(result);
}

void History::stop(std::uint64_t number, std::string reason) {
  Trial& trial = change(number);
  enter(trial, State::kStopped);
  trial.reason = std::move(reason);
  record(number, "stop", {});
}

void History::fail(std::uint64_t number, std::string reason) {
  Trial& trial = change(number);
  enter(trial, State::kFailed);
  trial.reason = std::move(reason);
  record(number, "fail", {});
}

void History::take_back(const std::optional<Trial>& before) {
  MUSTER_CHECK(!subjects_.empty(), "nothing has happened that could be taken back");
  const std::uint64_t number = subjects_.back();
  subjects_.pop_back();
  digests_.pop_back();
  Trial& trial = trials_[number];
  if (tuning::ended(trial.state)) ended_.pop_back();  // who has ended changes no more, so it was this call
  waiting_.erase(number);
  running_.erase(number);
  if (!before) {
    if (!trial.lineage) --originals_;
    trials_.pop_back();
    return;
  }
  trial = *before;
  if (trial.state == State::kWaiting) waiting_.insert(number);
  if (trial.state == State::kRunning) running_.insert(number);
}

std::optional<std::uint64_t> best_trial(const History& history, std::size_t objective, Goal goal) {
  std::optional<std::uint64_t> best;
  double least = 0.0;
  for (const Trial& trial : history.trials()) {
    const std::vector<double>* const values = ended(trial.state) ? trial.outcome() : nullptr;
    if (values == nullptr || !std::isfinite((*values)[objective])) continue;
    const double value = loss((*values)[objective], goal);
    if (best && !(value < least)) continue;
    best = trial.number;
    least = value;
  }
  return best;
}

}  // namespace muster::tuning
