// What faults cost a job: its steps held against an ideal that pays only what no system can save.
//
//   ideal = r0 * (T - A - B)
//   r0    steps a second of the undisturbed job
//   T     seconds of the disturbed time
//   A     seconds in which all wait for a stopped worker: for each the liveness time-out, or as long as it was stopped
//         when it was woken before
//   B     start-up share: for each worker that died the seconds until another one trained in its place, divided by the
//         number of workers (the others go on meanwhile)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/cli/chaos/checks.h"

namespace muster::cli {

struct Throughput {
  double calm_rate = 0;          // r0
  double seconds = 0;            // T
  double detection_seconds = 0;  // A
  double start_up_seconds = 0;   // B
  double ideal_steps = 0;
  double steps = 0;  // really committed
  double share = 0;  // of the ideal
};

// For the time from `begin` to `end` (ChaosSample::at), in which all of `faults` were made. Nothing when there is no
// rate, no time or no ideal to hold it against.
std::optional<Throughput> throughput(const std::vector<ChaosSample>& samples, const std::vector<MadeFault>& faults,
                                     double begin, double end, double calm_rate, double liveness, int workers);

// Steps a second between two times, by the samples next to them; 0 when there are not two.
double step_rate(const std::vector<ChaosSample>& samples, double begin, double end);

}  // namespace muster::cli
