// What a worker knows of the others becomes what its session is told of them: a fixed group, or a place among workers
// that are replaced.
#include "muster/trainer/synchronize.h"

#include <utility>

#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/session_core.h"
#include "muster/trainer/worker_place.h"
#include "muster/trainer/worker_session.h"

namespace muster::trainer {

Session worker_session(const Worker& worker, ModelParts model, SessionOptions options, SessionParts parts) {
  WorkerPlace& place = worker.place();
  parts.compares_contents = true;
  // Where lost workers are replaced the strategy gathers those who are there. Nobody here keeps anything else for them.
  const strategies::Traits traits = options.strategy.traits();
  if (place.supervised() && traits.replaces_workers && traits.workers_hold_state()) {
    parts.supervised = place.give_to_session();
  } else {
    options.group = place.group();
    parts.met = place.met();
  }
  if (place.supervised()) options.stop_on_signals = true;
  if (options.metrics.empty() && !place.run().empty())
    options.metrics = std::filesystem::path(place.run()) / "metrics.jsonl";
  return Session(std::make_unique<SessionCore>(std::move(model), options, std::move(parts)));
}

Session synchronize(const Worker& worker, std::shared_ptr<torch::nn::Module> net,
                    const compute::OptimizerOptions& optimizer, SessionOptions options) {
  return worker_session(worker, ModelParts(std::move(net), optimizer), std::move(options));
}

Session synchronize(const Worker& worker, std::vector<ModelPart> parts, SessionOptions options) {
  return worker_session(worker, ModelParts(std::move(parts)), std::move(options));
}

}  // namespace muster::trainer
