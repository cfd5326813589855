// What a session of a user's program leaves in the arena for those who watch it: how its batches are made. No torch
// here.
//
// `muster train` leaves more (run_knowledge.h), with the same names for the same things.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/lane_plan.h"

namespace muster::trainer {

struct SessionNote {
  data::BatchShape shape;
  std::uint64_t seed = 0;

  std::string to_text() const;
  // Nothing where the text is no note of a session.
  static std::optional<SessionNote> from_text(const std::string& text);
  // The samples of a lane of step `step` (committed steps before it), as the program's data set numbers them.
  std::vector<std::uint64_t> samples_of(std::uint64_t step, std::size_t lane) const;
};

}  // namespace muster::trainer
