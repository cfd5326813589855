// One line a strategy, and the one place that names their folders. What it lists is found by name and by trait in
// strategy_lookup.cpp. What a job file begins with stands here where it differs from what a program begins with, which
// is what the struct's members are initialised with.
#include "muster/strategies/registry.h"

#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"

namespace muster::strategies {

std::vector<StrategyChoice> all_strategies() {
  return {
      SharedSync{.exchange_early = true},  // the loop of a job is ours: one backward() a lane, left between steps
      AllReduce{}, LocalSgd{}, ParameterServer{.servers = 1},  // a job has somebody who starts it
  };
}

}  // namespace muster::strategies
