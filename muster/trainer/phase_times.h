// Where the time of a session's steps went.
#pragma once

namespace muster::trainer {

// In seconds, of the steps so far.
struct PhaseTimes {
  double load = 0;     // waiting for samples
  double compute = 0;  // forward, backward and collecting gradients
  double update = 0;   // reduce, optimizer, commit
  double wait = 0;     // waiting for other workers
  // Of update and wait: from the first sum of gradients that left for other hosts to the last that came.
  double exchange = 0;
};

}  // namespace muster::trainer
