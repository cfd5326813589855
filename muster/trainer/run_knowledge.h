// What the leader knows of a run beside the model, as it tells it to the other workers and leaves it in the arena for
// those who come when nobody is left who knew it. Whoever watches the job reads a part of it there. No torch here.
//
// As text it is one JSON object. It fits into a note of the arena (comm/shared_note.h) whatever happens: the path of a
// run is limited (run_folder.h), an alarm is cut, and the rest is numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/control/leader_note.h"
#include "muster/trainer/progress.h"

namespace muster::trainer {

// What it shares with those who watch comes first (control/leader_note.h).
struct RunKnowledge : control::LeaderNote {
  Progress progress;
  std::uint64_t first_step = 0;         // that this life of the run began with
  std::uint64_t ledger_generation = 0;  // likewise
  bool stop = false;                    // some worker was asked to stop, and all know it
  std::uint64_t change = 0;             // likewise: the last one of the job that counts from the next step on
  bool finished = false;                // everything is written
  std::optional<std::uint64_t> checkpointed_step;
  std::optional<std::uint64_t> validated_step;
  Json last_validation;  // what came out, an object; empty: there was none
  Json pace;             // of checkpoints (checkpoint_pace.h), an object; empty: none is kept
  std::string mark;      // that the leader has left in its folder, by which others see whether theirs is the same

  std::string to_text() const;
  // Throws kDamaged with `where` if it is no JSON object, or a member is missing or of another type.
  static RunKnowledge from_text(const std::string& text, const std::string& where);

  bool operator==(const RunKnowledge&) const = default;
};

}  // namespace muster::trainer
