// One line a searcher and a scheduler, and the one place that names their folders.
// Names, help and keys come from the options of each; nothing is listed twice.
#include "muster/tuning/registry.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tuning/schedulers/asha.h"
#include "muster/tuning/schedulers/halving.h"
#include "muster/tuning/schedulers/hyperband.h"
#include "muster/tuning/schedulers/median.h"
#include "muster/tuning/schedulers/none.h"
#include "muster/tuning/schedulers/population.h"
#include "muster/tuning/searchers/bohb.h"
#include "muster/tuning/searchers/cma_es.h"
#include "muster/tuning/searchers/gp.h"
#include "muster/tuning/searchers/grid.h"
#include "muster/tuning/searchers/random.h"
#include "muster/tuning/searchers/sobol.h"
#include "muster/tuning/searchers/tpe.h"

namespace muster::tuning {
namespace {

template <typename AnyChoice>
std::vector<std::string> names_of(const std::vector<AnyChoice>& choices) {
  std::vector<std::string> names;
  for (const AnyChoice& choice : choices)
    names.push_back(choice.name());
  return names;
}

template <typename AnyChoice>
AnyChoice named(const std::vector<AnyChoice>& choices, std::string_view what, std::string_view name) {
  for (const AnyChoice& choice : choices) {
    if (choice.name() == name) return choice;
  }
  const std::vector<std::string> names = names_of(choices);
  throw Error(ErrorKind::kInvalidInput, fmt::format("no {} \"{}\"{}", what, name, did_you_mean(name, names)), {},
              fmt::format("There are {}.", join_words(names)));
}

}  // namespace

std::vector<SearcherChoice> all_searchers() {
  return {Tpe{}, CmaEs{}, GpSearch{}, Bohb{}, RandomSearch{}, SobolSearch{}, GridSearch{}};
}

std::vector<SchedulerChoice> all_schedulers() {
  return {NoStopping{}, MedianStopping{}, SuccessiveHalving{}, Asha{}, Hyperband{}, PopulationBased{}};
}

std::vector<std::string> searcher_names() {
  return names_of(all_searchers());
}
std::vector<std::string> scheduler_names() {
  return names_of(all_schedulers());
}
SearcherChoice searcher_named(std::string_view name) {
  return named(all_searchers(), "searcher", name);
}
SchedulerChoice scheduler_named(std::string_view name) {
  return named(all_schedulers(), "scheduler", name);
}

}  // namespace muster::tuning
