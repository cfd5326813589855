// Draws are keyed, one stream for each question: who is asked, who can be asked, how fast a client is, who drops out.
// So one answer does not depend on which others were asked for.
#include "muster/federated/round_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "muster/data/permutation.h"
#include "muster/federated/chances.h"
#include "muster/federated/sample_budgets.h"

namespace muster::federated {
namespace {

using SamplesOf = std::function<std::uint64_t(std::uint64_t client)>;
using CanBeAsked = std::function<bool(std::uint64_t client)>;

// The `count` clients with the largest u^(1 / samples), u uniform: without repetition, by size (Efraimidis, Spirakis).
std::vector<std::uint64_t> ask_by_size(std::uint64_t clients, const SamplesOf& samples_of, const CanBeAsked& can,
                                       const Chances& chances, std::uint64_t count) {
  using Key = std::pair<double, std::uint64_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> best;
  for (std::uint64_t client = 0; client < clients; ++client) {
    const std::uint64_t samples = samples_of(client);
    if (samples == 0 || !can(client)) continue;
    const double key = std::log1p(-chances.stream(Draw::kAsked, client).uniform()) / static_cast<double>(samples);
    best.emplace(key, client);
    if (best.size() > count) best.pop();
  }
  std::vector<std::uint64_t> asked;
  for (; !best.empty(); best.pop())
    asked.push_back(best.top().second);
  std::ranges::sort(asked);
  return asked;
}

std::vector<std::uint64_t> ask(const Options& options, const SamplesOf& samples_of, const CanBeAsked& can,
                               const Chances& chances, const StreamKey& order_key) {
  const auto clients = static_cast<std::uint64_t>(options.clients);
  const auto count =
      static_cast<std::uint64_t>(std::ceil(static_cast<double>(options.per_round) * options.over_select));
  std::vector<std::uint64_t> asked;
  if (options.noise > 0) {
    const double part = static_cast<double>(options.per_round) / static_cast<double>(options.clients);
    for (std::uint64_t client = 0; client < clients; ++client) {
      if (chances.stream(Draw::kAsked, client).uniform() < part) asked.push_back(client);
    }
    return asked;
  }
  if (options.sampling == "size") return ask_by_size(clients, samples_of, can, chances, count);
  const data::Permutation order(clients, order_key);
  for (std::uint64_t i = 0; i < clients && asked.size() < count; ++i) {
    const std::uint64_t client = order(i);
    if (can(client)) asked.push_back(client);
  }
  return asked;
}

StreamKey order_of_round(std::uint64_t seed, std::uint64_t round) {
  return {.seed = seed, .purpose = Purpose::kFederated, .epoch = round + 1};
}

// The first `most` to answer, in the order in which they were asked; how many came too late.
std::uint64_t keep_first(std::vector<Participant>& answers, std::uint64_t most) {
  if (answers.size() <= most) return 0;
  std::vector<std::size_t> order(answers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return answers[i].seconds; });
  order.resize(most);
  std::ranges::sort(order);
  std::vector<Participant> kept;
  for (const std::size_t i : order)
    kept.push_back(answers[i]);
  const std::uint64_t late = answers.size() - most;
  answers = std::move(kept);
  return late;
}

}  // namespace

RoundPlan plan_round(const Options& options, const ClientSplit& split, std::uint64_t seed, std::uint64_t round,
                     const SampleBudgets* budgets) {
  const Chances chances(options, seed, round);
  RoundPlan plan{.round = round};
  const bool knows = options.sampling != "uniform";  // who is there: by it they are chosen
  const auto allowed = [&](std::uint64_t client) { return budgets == nullptr || budgets->allows(client); };
  const std::vector<std::uint64_t> asked = ask(
      options, [&](std::uint64_t client) { return split.size(client); },
      [&](std::uint64_t client) { return allowed(client) && (!knows || chances.available(client)); }, chances,
      order_of_round(seed, round));
  plan.asked = asked.size();
  for (const std::uint64_t client : asked) {
    const std::uint64_t all = split.size(client);
    const std::uint64_t samples = all - options.held_out(all);
    // Uniform sampling asks without knowing who is there; available sampling has seen to it.
    if (samples == 0) {
      ++plan.empty;
    } else if (chances.drops(client) || !chances.available(client) || !allowed(client)) {
      ++plan.dropped;
    } else {
      const double seconds = chances.seconds(client, static_cast<double>(samples));
      if (options.deadline_seconds && seconds > *options.deadline_seconds)
        ++plan.late;
      else
        plan.counts.push_back({.client = client,
                               .samples = samples,
                               .weight = options.weight(samples),
                               .seconds = seconds,
                               .false_one = chances.is_false(client),
                               .version = round,
                               .submodel = chances.submodel(client)});
    }
  }
  const std::uint64_t past_deadline = plan.late;
  // With noise it is chance how many are asked, and leaving out some of them would be no chance any more.
  if (!(options.noise > 0)) plan.late += keep_first(plan.counts, static_cast<std::uint64_t>(options.per_round));
  // Who is slow is waited for, and who has dropped out, because nobody knows that it will not answer.
  const bool enough = !(options.noise > 0) && plan.counts.size() >= static_cast<std::size_t>(options.per_round);
  if (options.deadline_seconds && !enough && plan.dropped + past_deadline > 0) plan.seconds = *options.deadline_seconds;
  for (const Participant& participant : plan.counts) {
    plan.seconds = std::max(plan.seconds, participant.seconds);
    plan.denominator += participant.weight;
  }
  if (options.noise > 0) {
    plan.denominator = static_cast<double>(options.per_round);
  } else if (plan.counts.size() < options.least_updates()) {
    plan.reason = fmt::format("{} of {} clients answered, and {} are the least: nothing changes", plan.counts.size(),
                              plan.asked, options.least_updates());
    plan.counts.clear();
    return plan;
  }
  plan.reason = fmt::format("{} clients asked, {} count", plan.asked, plan.counts.size());
  return plan;
}

std::vector<std::uint64_t> ask_present(const Options& options, std::uint64_t seed, std::uint64_t round,
                                       const std::function<std::uint64_t(std::uint64_t client)>& samples) {
  const Chances chances(options, seed, round);
  return ask(
      options, samples, [&](std::uint64_t client) { return samples(client) > 0; }, chances,
      order_of_round(seed, round));
}

}  // namespace muster::federated
