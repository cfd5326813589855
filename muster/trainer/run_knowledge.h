// What the leader knows of a run beside the model, as it tells it to the other workers and leaves it in the arena for
// those who come when nobody is left who knew it. Whoever watches the job reads it there too. No torch here.
//
// As text it is one JSON object. It fits into a note of the arena (comm/shared_note.h) whatever happens: the path of a
// run is limited (run_folder.h), an alarm is cut, and the rest is numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "muster/base/json.h"
#include "muster/trainer/progress.h"

namespace muster::trainer {

struct RunKnowledge {
  std::string run;  // the path of its folder
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
  // For those who watch.
  std::uint64_t step = 0;  // that the leader has committed
  std::uint64_t total_steps = 0;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t batch = 0;
  std::string alarm;  // what is wrong now; as text its beginning

  std::string to_text() const;
  // Throws kDamaged with `where` if it is no JSON object, or a member is missing or of another type.
  static RunKnowledge from_text(const std::string& text, const std::string& where);

  bool operator==(const RunKnowledge&) const = default;
};

}  // namespace muster::trainer
