// One JSON object to text and back. Every text in it is bounded, because it has to fit a note of shared memory whatever
// the run is called.
#include "muster/trainer/run_knowledge.h"

#include "muster/base/error.h"

namespace muster::trainer {

std::string RunKnowledge::to_text() const {
  Json json = to_json();
  json["run"] = run;
  json["progress"] = progress.to_json();
  json["first_step"] = first_step;
  json["ledger_generation"] = ledger_generation;
  json["stop"] = stop;
  json["change"] = change;
  json["finished"] = finished;
  if (checkpointed_step) json["checkpointed_step"] = *checkpointed_step;
  if (validated_step) json["validated_step"] = *validated_step;
  if (!last_validation.is_null()) json["last_validation"] = last_validation;
  if (!pace.is_null()) json["pace"] = pace;
  if (!mark.empty()) json["mark"] = mark;
  return json.dump();
}

RunKnowledge RunKnowledge::from_text(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const auto step = [&](const char* key) -> std::optional<std::uint64_t> {
    if (!json.contains(key)) return std::nullopt;
    return json_get<std::uint64_t>(json, key, where);
  };
  const auto object = [&](const char* key) -> Json {
    if (!json.contains(key)) return {};
    if (!json.at(key).is_object())
      throw Error(ErrorKind::kDamaged, std::string("\"") + key + "\" is not an object", where);
    return json.at(key);
  };
  RunKnowledge known;
  static_cast<LeaderNote&>(known) = from_json(json, where);
  for (const char* key : {"run", "step", "total_steps", "steps_per_epoch", "batch"})
    if (!json.contains(key)) throw Error(ErrorKind::kDamaged, std::string("member \"") + key + "\" is missing", where);
  known.progress = Progress::from_json(object("progress"), where);
  known.first_step = json_get<std::uint64_t>(json, "first_step", where);
  known.ledger_generation = json_get<std::uint64_t>(json, "ledger_generation", where);
  known.stop = json_get<bool>(json, "stop", where);
  known.change = json_get<std::uint64_t>(json, "change", where);
  known.finished = json_get<bool>(json, "finished", where);
  known.checkpointed_step = step("checkpointed_step");
  known.validated_step = step("validated_step");
  known.last_validation = object("last_validation");
  known.pace = object("pace");
  if (json.contains("mark")) known.mark = json_get<std::string>(json, "mark", where);
  return known;
}

}  // namespace muster::trainer
