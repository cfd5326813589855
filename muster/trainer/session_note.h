// What a session of a user's program leaves in the arena for those who watch it: how its batches are made
// (control/leader_note.h, which reads it too). `muster train` leaves more (run_knowledge.h). No torch here.
#pragma once

#include <cstdint>
#include <string>

#include "muster/data/lane_plan.h"

namespace muster::trainer {

struct SessionNote {
  data::BatchShape shape;
  std::uint64_t seed = 0;

  std::string to_text() const;
};

}  // namespace muster::trainer
