#include "muster/trainer/run_knowledge.h"

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::trainer {
namespace {

constexpr std::size_t kShownOfAlarm = 500;

}  // namespace

std::string RunKnowledge::to_text() const {
  Json json{{"run", run},
            {"progress", progress.to_json()},
            {"first_step", first_step},
            {"ledger_generation", ledger_generation},
            {"stop", stop},
            {"change", change},
            {"finished", finished},
            {"step", step},
            {"total_steps", total_steps},
            {"steps_per_epoch", steps_per_epoch},
            {"batch", batch}};
  if (checkpointed_step) json["checkpointed_step"] = *checkpointed_step;
  if (validated_step) json["validated_step"] = *validated_step;
  if (!last_validation.is_null()) json["last_validation"] = last_validation;
  if (!pace.is_null()) json["pace"] = pace;
  if (!alarm.empty()) json["alarm"] = excerpt(alarm, kShownOfAlarm);
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
  known.run = json_get<std::string>(json, "run", where);
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
  known.step = json_get<std::uint64_t>(json, "step", where);
  known.total_steps = json_get<std::uint64_t>(json, "total_steps", where);
  known.steps_per_epoch = json_get<std::uint64_t>(json, "steps_per_epoch", where);
  known.batch = json_get<std::uint64_t>(json, "batch", where);
  if (json.contains("alarm")) known.alarm = json_get<std::string>(json, "alarm", where);
  return known;
}

}  // namespace muster::trainer
