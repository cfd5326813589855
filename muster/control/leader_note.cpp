// A member that is missing is left at its default, because leaders of several kinds leave notes; one of another type
// makes the whole no note. Whoever only watches goes on without it (read), the workers do not (from_json).
#include "muster/control/leader_note.h"

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/lane_order.h"

namespace muster::control {
namespace {

constexpr std::size_t kShownOfAlarm = 500;

}  // namespace

Json LeaderNote::to_json() const {
  Json json = Json::object();
  if (!run.empty()) json["run"] = run;
  json["step"] = step;
  json["total_steps"] = total_steps;
  json["steps_per_epoch"] = steps_per_epoch;
  json["batch"] = batch;
  if (!alarm.empty()) json["alarm"] = excerpt(alarm, kShownOfAlarm);
  if (!doing.empty()) json["doing"] = doing;
  if (!place.empty()) json["place"] = place;
  if (saved) json["saved"] = *saved;
  if (!stages.empty()) json["stages"] = stages;
  if (lanes) {
    json["samples"] = lanes->samples;
    json["lanes"] = lanes->lanes;
    json["seed"] = lanes->seed;
  }
  return json;
}

LeaderNote LeaderNote::from_json(const Json& json, const std::string& where) {
  if (!json.is_object()) throw Error(ErrorKind::kDamaged, "the leader's note is not a JSON object", where);
  const auto get = [&]<typename T>(const char* key, T& value) {
    if (!json.contains(key)) return false;
    value = json_get<T>(json, key, where);
    return true;
  };
  LeaderNote note;
  get("run", note.run);
  get("step", note.step);
  get("total_steps", note.total_steps);
  get("steps_per_epoch", note.steps_per_epoch);
  get("batch", note.batch);
  get("alarm", note.alarm);
  get("doing", note.doing);
  get("place", note.place);
  get("stages", note.stages);
  if (std::uint64_t saved = 0; get("saved", saved)) note.saved = saved;
  LaneSource source;
  const bool said = get("samples", source.samples) && get("lanes", source.lanes) && get("seed", source.seed);
  if (said && source.samples > 0 && source.lanes > 0 && source.lanes <= note.batch) note.lanes = source;
  return note;
}

LeaderNote LeaderNote::read(const std::string& text) {
  if (text.empty()) return {};
  try {
    return from_json(parse_json(text, "the leader's note"), "the leader's note");
  } catch (const Error&) {
    return {};
  }
}

std::uint64_t LeaderNote::epoch_after(std::uint64_t committed) const {
  if (steps_per_epoch == 0) return 0;
  const bool over = total_steps > 0 && committed == total_steps;  // own programs do not say how many they will do
  return committed / steps_per_epoch + (over ? 0 : 1);
}

std::vector<std::uint64_t> LeaderNote::samples_of(std::uint64_t at_step, std::size_t lane) const {
  if (!lanes) return {};
  const data::GlobalOrder order({lanes->samples, batch, lanes->lanes}, lanes->seed);
  const data::StepPlan plan = order.plan(order.cursor_at_step(at_step));
  return lane < plan.lanes.size() ? order.ids(plan, lane) : std::vector<std::uint64_t>();
}

}  // namespace muster::control
