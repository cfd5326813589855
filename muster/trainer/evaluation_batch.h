// How many samples an evaluation takes at a time. No torch here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster::trainer {

constexpr std::uint64_t kEvaluationBatch = 250;

// Of a job with steps of `batch` samples in `lanes`: as many as a lane has, so that an evaluation takes no more memory
// than a step. Also afterwards: the bits of a loss depend on it.
constexpr std::uint64_t evaluation_batch(std::uint64_t batch, std::uint64_t lanes) {
  constexpr std::uint64_t kFewest = 32;
  return std::clamp((batch + lanes - 1) / lanes, kFewest, kEvaluationBatch);
}

}  // namespace muster::trainer
