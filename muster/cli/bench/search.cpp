// muster bench search: each searcher on each function, from many seeds: the median of the best value, and the time of a
// question. With --history the functions are tried at random that many times first, and only the questions after it
// count.
#include "muster/cli/bench/search.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/search_functions.h"
#include "muster/tuning/registry.h"

namespace muster::cli {
namespace {

using tuning::Assignment;
using tuning::History;
using tuning::SearcherChoice;

SearchFunction function_named(const std::string& name) {
  std::vector<std::string> names;
  for (SearchFunction& function : search_functions()) {
    if (function.name == name) return function;
    names.push_back(function.name);
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("no function \"{}\"{}", name, did_you_mean(name, names)),
              "--functions", fmt::format("There are {}.", join_words(names)));
}

void try_values(History& history, const SearchFunction& function, const Assignment& values) {
  const std::uint64_t number = history.size();
  history.add({.number = number, .values = values});
  history.finish(number, {function.value(values)});
}

double quantile(std::vector<double> sorted, double share) {
  std::sort(sorted.begin(), sorted.end());
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Distance of the best value from the minimum, seed by seed.
Json found(const SearchBench& options, const SearcherChoice& choice, const SearchFunction& function) {
  std::vector<double> best, times;
  for (std::int64_t seed = 0; seed < options.seeds; ++seed) {
    const auto searcher = choice.make({.space = function.space,
                                       .seed = static_cast<std::uint64_t>(seed),
                                       .trials = static_cast<std::uint64_t>(options.trials)});
    History history;
    for (std::int64_t trial = 0; trial < options.trials; ++trial) {
      const auto start = system_clock().now();
      const tuning::Proposal proposal = searcher->ask(history, history.size());
      times.push_back(microseconds_since(start));
      if (proposal.exhausted) break;
      try_values(history, function, proposal.values);
    }
    const std::uint64_t winner = *tuning::best_trial(history, 0, tuning::Goal::kMinimise);
    best.push_back(history.at(winner).result[0] - function.minimum);
  }
  return {{"function", function.name},         {"searcher", choice.name()},
          {"trials", options.trials},          {"seeds", options.seeds},
          {"regret", quantile(best, 0.5)},     {"regret_25", quantile(best, 0.25)},
          {"regret_75", quantile(best, 0.75)}, {"ask_us", quantile(times, 0.5)}};
}

// What one question costs when there is a long history, and what one result costs.
Json timed(const SearchBench& options, const SearcherChoice& choice, const SearchFunction& function) {
  const auto random = tuning::searcher_named("random").make({.space = function.space});
  const auto searcher = choice.make({.space = function.space});
  History history;
  while (history.size() < static_cast<std::uint64_t>(options.history))
    try_values(history, function, random->ask(history, history.size()).values);
  std::vector<double> asks, tells;
  for (std::int64_t trial = -1; trial < options.trials; ++trial) {
    auto start = system_clock().now();
    const tuning::Proposal proposal = searcher->ask(history, history.size());
    const double ask = microseconds_since(start);
    if (proposal.exhausted) break;
    start = system_clock().now();
    try_values(history, function, proposal.values);
    if (trial < 0) continue;  // the first question reads all of the history, as after a resume
    asks.push_back(ask);
    tells.push_back(microseconds_since(start));
  }
  if (asks.empty()) return {};
  return {{"function", function.name},     {"searcher", choice.name()},         {"history", options.history},
          {"ask_us", quantile(asks, 0.5)}, {"ask_us_99", quantile(asks, 0.99)}, {"tell_us", quantile(tells, 0.5)}};
}

}  // namespace

void bench_search(const SearchBench& options) {
  std::vector<SearchFunction> functions;
  for (const std::string& name : options.functions)
    functions.push_back(function_named(name));
  if (functions.empty()) functions = search_functions();
  for (const std::string& name : options.searchers) {
    SearcherChoice choice = tuning::searcher_named(name);
    Schema schema;
    choice.add_keys(schema.section("search", "Options of the searcher."));
    for (const std::string& assignment : options.assignments)
      schema.set("search." + assignment);
    for (const SearchFunction& function : functions) {
      const Json row = options.history > 0 ? timed(options, choice, function) : found(options, choice, function);
      if (!row.empty()) print_row(row, options.json);
    }
  }
}

}  // namespace muster::cli
