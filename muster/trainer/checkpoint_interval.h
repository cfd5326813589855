// How long to wait from checkpoint to checkpoint, with `checkpoint.every_steps = "auto"`.
//
// Too often costs time at every checkpoint, too seldom costs the work that a failure makes us repeat. With a cost c of
// one checkpoint and a mean time M between failures the sum is least near sqrt(2 c M) (Young 1974, Daly 2006). M is
// what the job has seen, held against a prior so that a young job without failures does not claim never to fail. A pure
// function: the measuring is checkpoint_pace.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::trainer {

struct IntervalInputs {
  std::optional<double> cost_seconds{};  // that one checkpoint adds to the time of training; empty: not measured yet
  double step_seconds = 0;               // of a step while nothing is written
  double trained_seconds = 0;            // of the job, in all its lives
  std::uint64_t failures = 0;            // in that time
};

struct IntervalLimits {
  double most_overhead = 0.01;       // of the time goes into checkpoints; stronger than `longest_seconds`
  double shortest_seconds = 1;       // the disk has other users
  double longest_seconds = 600;      // of work is ever at stake
  double first_seconds = 2;          // until the first one, which is measured
  double prior_seconds = 24 * 3600;  // as if one failure had been seen in so long a time before the job
};

struct IntervalDecision {
  double seconds = 0;
  std::string reason;  // in words, for the log
};

IntervalDecision choose_interval(const IntervalInputs& inputs, const IntervalLimits& limits = {});

}  // namespace muster::trainer
