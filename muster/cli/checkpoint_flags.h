// --best, --last and --step: which checkpoint of a run a command takes. The same for all that take one.
#pragma once

#include "muster/cli/command.h"
#include "muster/trainer/checkpoint_choice.h"

namespace muster::cli {

// `choice` must live as long as the command.
inline void add_checkpoint_flags(CLI::App& command, trainer::CheckpointChoice& choice) {
  CLI::Option* const best =
      command.add_flag("--best", choice.best, "Of a run: its best checkpoint, by validation loss (the default)");
  CLI::Option* const last = command.add_flag("--last", choice.last, "Of a run: its last checkpoint");
  CLI::Option* const step = command.add_option("--step", choice.step, "Of a run: the checkpoint of this step");
  best->excludes(last)->excludes(step);
  last->excludes(step);
}

}  // namespace muster::cli
