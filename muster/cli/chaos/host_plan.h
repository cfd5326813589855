// What a planned fault means for the hosts of a job: whom it hits, how, and for how long. A pure function of the fault,
// so that a seed gives the same again wherever the same host coordinates.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/cli/chaos/plan.h"

namespace muster::cli {

struct Disturbance {
  Fault fault = Fault::kHost;
  int victim = -1;                          // killed, frozen or without a link; -1: the network alone is disturbed
  std::vector<std::pair<int, int>> cuts{};  // packets from the first to the second vanish
  double seconds = 0;                       // until the host comes back, wakes up, or the network is whole again
  bool silent = false;                      // a killed host says no goodbye: it is cut off first, as by a loss of power
  bool wiped = false;                       // and what its disk had is gone
  bool brief = false;                       // over before anybody may be given up for it
  bool early = false;                       // may come while others come back from the fault before
  // Hosts that neither hear the coordinator nor are heard by it: they may commit nothing.
  std::vector<int> apart{};
  std::string words{};  // completes "host-1 ..." or stands alone, for people
};

// `detection`: seconds after which a silent host is given up. REQUIRES: at least 2 hosts, a fault of kHostFaults.
Disturbance disturbance_of(const PlannedFault& planned, int hosts, int coordinator, double detection);

}  // namespace muster::cli
