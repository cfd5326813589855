#include "muster/trainer/session_note.h"

#include "muster/base/json.h"
#include "muster/data/lane_order.h"

namespace muster::trainer {

std::string SessionNote::to_text() const {
  return Json{{"samples", shape.samples},
              {"batch", shape.batch},
              {"lanes", shape.lanes},
              {"seed", seed},
              {"steps_per_epoch", data::steps_per_epoch(shape)}}
      .dump();
}

std::optional<SessionNote> SessionNote::from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"samples", "batch", "lanes", "seed"})
    if (!json.contains(key) || !json.at(key).is_number_unsigned()) return std::nullopt;
  SessionNote note;
  note.shape = {json.at("samples"), json.at("batch"), json.at("lanes")};
  note.seed = json.at("seed");
  if (note.shape.samples == 0 || note.shape.lanes == 0 || note.shape.lanes > note.shape.batch) return std::nullopt;
  return note;
}

std::vector<std::uint64_t> SessionNote::samples_of(std::uint64_t step, std::size_t lane) const {
  const data::GlobalOrder order(shape, seed);
  const data::StepPlan plan = order.plan(order.cursor_at_step(step));
  return lane < plan.lanes.size() ? order.ids(plan, lane) : std::vector<std::uint64_t>();
}

}  // namespace muster::trainer
