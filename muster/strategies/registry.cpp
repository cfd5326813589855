#include "muster/strategies/registry.h"

#include <array>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"

namespace muster::strategies {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Strategy> (*make)(StrategyOptions);
};

constexpr std::array kStrategies{
    Entry{"shared_sync", make_shared_sync},
    Entry{"all_reduce", make_all_reduce},
    Entry{"local_sgd", make_local_sgd},
    Entry{"parameter_server", make_parameter_server},
};

}  // namespace

std::optional<StepOutcome> Strategy::rejoin() {
  throw Error(ErrorKind::kUnsupported, "the workers of this job cannot be replaced", {},
              "Start again with --resume, or use the strategy shared_sync.");
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kStrategies)
    names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, StrategyOptions options) {
  for (const Entry& entry : kStrategies) {
    if (name == entry.name) return entry.make(std::move(options));
  }
  const std::vector<std::string> names = strategy_names();
  throw Error(ErrorKind::kInvalidInput, fmt::format("no strategy \"{}\"{}", name, did_you_mean(name, names)), {},
              fmt::format("Strategies are {}.", join_words(names)));
}

}  // namespace muster::strategies
