// To JSON and back.
// What is infinite has no number in JSON and is left out; what older checkpoints lack has a default.
#include "muster/trainer/progress.h"

namespace muster::trainer {

Json Progress::to_json() const {
  Json json{{"validated_epochs", validated_epochs},
            {"best_step", best_step},
            {"best_score", best_score},
            {"epochs_without_improvement", epochs_without_improvement},
            {"skipped", skipped.total},
            {"skipped_in_a_row", skipped.in_a_row},
            {"change", change},
            {"loss_sum", loss_sum},
            {"score_sum", score_sum},
            {"samples", samples}};
  // JSON has no infinity.
  if (best_step > 0) json["best_loss"] = best_loss;
  return json;
}

Progress Progress::from_json(const Json& json, const std::string& where) {
  Progress p;
  p.validated_epochs = json_get<std::uint64_t>(json, "validated_epochs", where);
  p.best_step = json_get<std::uint64_t>(json, "best_step", where);
  p.best_score = json_get<double>(json, "best_score", where);
  p.epochs_without_improvement = json_get<std::uint64_t>(json, "epochs_without_improvement", where);
  p.skipped.total = json_get<std::uint64_t>(json, "skipped", where);
  p.skipped.in_a_row = json_get<std::uint64_t>(json, "skipped_in_a_row", where);
  // Checkpoints of before there were changes have none.
  if (json.contains("change")) p.change = json_get<std::uint64_t>(json, "change", where);
  p.loss_sum = json_get<double>(json, "loss_sum", where);
  p.score_sum = json_get<double>(json, "score_sum", where);
  p.samples = json_get<double>(json, "samples", where);
  if (p.best_step > 0) p.best_loss = json_get<double>(json, "best_loss", where);
  return p;
}

}  // namespace muster::trainer
