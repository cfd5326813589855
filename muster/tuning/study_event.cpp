// Events as small JSON objects: only what a kind of event has is written. What is read back is checked against the
// history before it is replayed, because a history takes no nonsense.
#include "muster/tuning/study_event.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::tuning {
namespace {

constexpr std::array<std::string_view, 8> kEventNames{"add",   "run",    "lose", "report",
                                                      "pause", "finish", "stop", "fail"};

EventKind kind_of(const std::string& name, const std::string& where) {
  for (std::size_t i = 0; i < kEventNames.size(); ++i) {
    if (kEventNames[i] == name) return static_cast<EventKind>(i);
  }
  throw Error(ErrorKind::kDamaged, fmt::format("has an event \"{}\", which there is not", name), where);
}

// Numbers that JSON has not become null.
Json numbers(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values)
    json.push_back(std::isfinite(value) ? Json(value) : Json());
  return json;
}

[[noreturn]] void damaged(const StudyEvent& event, const char* why, const std::string& where) {
  throw Error(
      ErrorKind::kDamaged,
      fmt::format("\"{}\" of trial {} {}", kEventNames[static_cast<std::size_t>(event.kind)], event.number, why),
      where);
}

void require_state(const StudyEvent& event, const History& history, std::initializer_list<State> allowed,
                   const std::string& where) {
  if (event.number >= history.size()) damaged(event, "is of a trial that is not there", where);
  for (const State state : allowed) {
    if (history.at(event.number).state == state) return;
  }
  damaged(event, "does not follow what happened to it before", where);
}

}  // namespace

Json StudyEvent::json() const {
  Json json{{"event", kEventNames[static_cast<std::size_t>(kind)]}, {"trial", number}};
  if (kind == EventKind::kAdd) {
    json["values"] = values.json();
    if (lineage) json["from"] = {{"trial", lineage->parent}, {"resource", lineage->resource}};
    if (group != 0) json["group"] = group;
  }
  if (kind == EventKind::kReport || kind == EventKind::kLose) json["resource"] = resource;
  if (kind == EventKind::kReport || kind == EventKind::kFinish) json["objectives"] = numbers(objectives);
  if (!reason.empty()) json["reason"] = reason;
  if (!owner.empty()) json["owner"] = owner;
  if (died) json["died"] = true;
  if (seconds != 0) json["seconds"] = seconds;
  if (processor_seconds != 0) json["processor_seconds"] = processor_seconds;
  if (start_seconds != 0) json["start_seconds"] = start_seconds;
  if (at != 0) json["at"] = at;
  return json;
}

StudyEvent StudyEvent::from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(ErrorKind::kDamaged, "has an event that is no object", where);
  StudyEvent event;
  event.kind = kind_of(json_get<std::string>(json, "event", where), where);
  event.number = json_get<std::uint64_t>(json, "trial", where);
  if (event.kind == EventKind::kAdd) event.values = Assignment::from_json(json_get<Json>(json, "values", where), where);
  if (json.contains("from")) {
    const Json from = json_get<Json>(json, "from", where);
    event.lineage =
        Lineage{json_get<std::uint64_t>(from, "trial", where), json_get<std::uint64_t>(from, "resource", where)};
  }
  if (json.contains("group")) event.group = json_get<std::uint64_t>(json, "group", where);
  if (json.contains("resource")) event.resource = json_get<std::uint64_t>(json, "resource", where);
  if (json.contains("objectives")) event.objectives = json_get<std::vector<double>>(json, "objectives", where);
  if (json.contains("reason")) event.reason = json_get<std::string>(json, "reason", where);
  if (json.contains("owner")) event.owner = json_get<std::string>(json, "owner", where);
  if (json.contains("died")) event.died = json_get<bool>(json, "died", where);
  if (json.contains("seconds")) event.seconds = json_get<double>(json, "seconds", where);
  if (json.contains("processor_seconds")) event.processor_seconds = json_get<double>(json, "processor_seconds", where);
  if (json.contains("start_seconds")) event.start_seconds = json_get<double>(json, "start_seconds", where);
  if (json.contains("at")) event.at = json_get<std::int64_t>(json, "at", where);
  return event;
}

namespace {

void add_trial(const StudyEvent& event, History& history, std::vector<TrialNotes>& notes, const std::string& where) {
  if (event.number != history.size()) damaged(event, "is not the next trial", where);
  if (event.lineage && event.lineage->parent >= history.size()) damaged(event, "has a parent that is not there", where);
  Trial trial;
  trial.number = event.number;
  trial.values = event.values;
  trial.reason = event.reason;
  trial.lineage = event.lineage;
  trial.group = event.group;
  history.add(std::move(trial));
  notes.emplace_back();
}

// The part that only notes know.
void note(const StudyEvent& event, TrialNotes& notes) {
  notes.seconds += event.seconds;
  notes.processor_seconds += event.processor_seconds;
  notes.start_seconds += event.start_seconds;
  if (event.kind == EventKind::kRun) {
    notes.owner = event.owner;
    notes.run_at = event.at;
    if (notes.begun == 0) notes.begun = event.at;
  } else if (event.kind != EventKind::kReport) {
    notes.owner.clear();
    const bool unheard = event.kind == EventKind::kLose && event.seconds == 0 && !event.died;
    notes.unheard_since = unheard ? notes.run_at : 0;
  }
  if (event.died) ++notes.deaths;
  if (event.kind == EventKind::kFinish || event.kind == EventKind::kStop || event.kind == EventKind::kFail)
    notes.ended = event.at;
}

}  // namespace

void apply(const StudyEvent& event, History& history, std::vector<TrialNotes>& notes, const std::string& where) {
  using enum EventKind;
  const auto is_in = [&](std::initializer_list<State> allowed) { require_state(event, history, allowed, where); };
  switch (event.kind) {
    case kAdd:
      add_trial(event, history, notes, where);
      return;
    case kRun:
      is_in({State::kWaiting, State::kPaused});
      history.run(event.number);
      break;
    case kLose:
      is_in({State::kRunning});
      history.lose(event.number, event.resource);
      break;
    case kReport:
      is_in({State::kRunning});
      if (event.resource <= history.at(event.number).resource()) damaged(event, "does not grow", where);
      history.report(event.number, {event.resource, event.objectives});
      break;
    case kPause:
      is_in({State::kRunning});
      history.pause(event.number, event.reason);
      break;
    case kFinish:
      is_in({State::kRunning});
      history.finish(event.number, event.objectives);
      break;
    case kStop:
      is_in({State::kRunning, State::kPaused, State::kWaiting});
      history.stop(event.number, event.reason);
      break;
    case kFail:
      is_in({State::kRunning, State::kWaiting});
      history.fail(event.number, event.reason);
      break;
  }
  note(event, notes[event.number]);
}

}  // namespace muster::tuning
