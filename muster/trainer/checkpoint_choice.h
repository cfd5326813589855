// Which checkpoint of a run is meant: one rule for all who use a trained model.
//
// The best one, by the validation loss; the last one of a run in which none was ever marked as the best. Or what the
// person asks for. Everybody who chooses says what was chosen and why. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace muster::trainer {

struct CheckpointChoice {
  // At most one of them.
  bool best = false;  // and nothing else: an error if none is marked
  bool last = false;
  std::optional<std::uint64_t> step = {};
  bool operator==(const CheckpointChoice&) const = default;
};

struct ChosenCheckpoint {
  std::filesystem::path path;
  std::uint64_t step = 0;
  std::string why;  // "step 120, the best of the run (validation loss 0.3112); the last is step 200"
};

// Of the run's folder. Throws Error{kNotFound} (no checkpoint, none marked as the best), kInvalidInput (no such
// step, with those there are; more than one wish), kDamaged.
ChosenCheckpoint choose_checkpoint(const std::filesystem::path& run, const CheckpointChoice& choice = {});

// For who was given one checkpoint or a file, where there is nothing to choose. Throws kInvalidInput if something was
// chosen all the same.
void refuse_choice(const CheckpointChoice& choice, const std::filesystem::path& given);

}  // namespace muster::trainer
