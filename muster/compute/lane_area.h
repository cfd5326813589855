// Where the results of one lane go: memory that belongs to the strategy and that only the lane's worker writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/compute/figures.h"

namespace muster::compute {

struct LaneArea {
  std::span<float> gradient;        // flat, model/flat_layout.h
  std::span<std::uint8_t> present;  // per tensor: 1 if backward gave it a gradient
  std::span<std::byte> buffers;     // buffer_layout.h
};

// What a lane tells beside its gradient. Sums, not means, so that lanes of different sizes add up.
struct LaneReport {
  double loss_sum = 0;  // mean loss of the lane times its samples
  double score = 0;     // a second figure where the task has one (correct answers, absolute errors)
  Figures figures{};    // named ones of the program's own
};

}  // namespace muster::compute
