// How one part of a session's model is trained. No torch here.
#pragma once

#include <optional>
#include <string>

#include "muster/compute/optimizer.h"
#include "muster/compute/schedule.h"

namespace muster::trainer {

struct PartOptions {
  std::string name;  // names its tensors: "critic" has "critic.fc.weight". Empty: it is the whole model
  std::optional<compute::OptimizerOptions> optimizer{};  // empty: no gradient changes it; after_commit may
  std::optional<compute::Schedule> schedule{};           // empty: SessionOptions::schedule
};

}  // namespace muster::trainer
