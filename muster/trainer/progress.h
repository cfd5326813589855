// What is known of a run beside the model: part of every checkpoint, so that a resumed run decides as one that went on,
// and told to workers that come later. No torch here.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "muster/base/json.h"
#include "muster/trainer/skipped_steps.h"

namespace muster::trainer {

struct Progress {
  std::uint64_t validated_epochs = 0;
  double best_loss = std::numeric_limits<double>::infinity();
  double best_score = 0;        // the first metric there
  std::uint64_t best_step = 0;  // 0: nothing was validated yet, and there is no best
  std::uint64_t epochs_without_improvement = 0;
  SkippedSteps skipped{};
  std::uint64_t change = 0;  // the last change of the job that counts so far, as of a checkpoint
  // sums of the epoch in work
  double loss_sum = 0;
  double score_sum = 0;
  double samples = 0;

  // Not a number where no step of the epoch was applied.
  double mean_loss() const { return mean(loss_sum); }
  double mean_score() const { return mean(score_sum); }

  Json to_json() const;
  // Throws kDamaged with `where` if a member is missing or of another type.
  static Progress from_json(const Json& json, const std::string& where);

  bool operator==(const Progress&) const = default;

 private:
  double mean(double sum) const { return samples > 0 ? sum / samples : std::numeric_limits<double>::quiet_NaN(); }
};

}  // namespace muster::trainer
