// Sums of what each part keeps at its peak, one function for each place where memory goes, then the same sums with one
// thing changed to find advice that helps. Factors were measured: docs/memory.md.
#include "muster/trainer/memory_estimate.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/text.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/evaluation_batch.h"

namespace muster::trainer {
namespace {

// The heap has holes that the next tensor does not fit, and keeps them: a step's tensors take 1.1 to 1.9 times their
// bytes there, measured with five models (docs/memory.md), so an allowance of one half is made.
constexpr std::uint64_t kHeapLoss = 2;

constexpr std::uint64_t kMostAdvisedLanes = 64;  // more are not worth their gradients
constexpr std::uint64_t kLeastLaneSamples = 2;   // batch norm cannot train on one
// Beside the lanes that are read ahead: the one that is computed, and one whose memory is used again.
constexpr std::uint64_t kLanesInWork = 2;
// Of an evaluation: those that are read ahead (batch_walk.cpp) and the one in work.
constexpr std::uint64_t kEvaluationBatches = 4;

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

void keep_what_counts(std::vector<MemoryItem>& items) {
  std::erase_if(items, [](const MemoryItem& item) { return item.bytes == 0; });
}

}  // namespace

std::uint64_t MemoryEstimate::total() const {
  return std::accumulate(items.begin(), items.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const MemoryItem& item) { return sum + item.bytes; });
}

Json MemoryEstimate::to_json() const {
  Json json{{"total", total()}, {"items", Json::object()}};
  for (const MemoryItem& item : items)
    json["items"][item.name] = item.bytes;
  return json;
}

MemoryEstimate estimate_memory(const MemoryFigures& figures) {
  const strategies::StateMemory state =
      figures.strategy.memory({figures.workers, figures.lanes, figures.slots, figures.model.parameter_bytes,
                               figures.model.buffer_bytes, figures.passage_bytes});
  const auto servers = static_cast<std::uint64_t>(figures.strategy.server_processes().count);
  const std::uint64_t workers = figures.workers;
  const std::uint64_t parameters = figures.model.parameter_bytes;
  const std::uint64_t lane_samples = divide_up(figures.batch, figures.lanes);
  const std::uint64_t evaluation_samples =
      std::min(figures.evaluation_samples, evaluation_batch(figures.batch, figures.lanes));
  const auto kept =
      static_cast<std::uint64_t>(figures.lanes_kept * static_cast<double>(figures.model.step.of(lane_samples)));
  const std::uint64_t activations = std::max(kept, figures.model.forward.of(evaluation_samples));
  const std::uint64_t loaded =
      (figures.prefetch + kLanesInWork) * lane_samples + kEvaluationBatches * evaluation_samples;
  const std::uint64_t snapshot = parameters * (1 + figures.slots) + figures.model.buffer_bytes;
  std::vector<MemoryItem> training{{"gradients", state.gradients},
                                   {"activations", workers * activations},
                                   {"lost between tensors in the heap", workers * activations / kHeapLoss},
                                   {"samples read ahead", workers * loaded * figures.sample_bytes},
                                   {"copy for a checkpoint", snapshot}};
  keep_what_counts(training);
  // Before the first step each worker has made the model; where each has state of its own, it copies that from a second
  // one, with the optimizer's.
  const std::uint64_t copied = figures.strategy.traits().shares_host_memory ? 0 : 1 + (figures.slots > 0 ? 1 : 0);
  std::vector<MemoryItem> starting{
      {"first weights of the workers", figures.hollow ? 0 : workers * parameters * (1 + copied)}};
  keep_what_counts(starting);
  MemoryEstimate estimate;
  estimate.items = {
      {"parameters and optimizer state, two versions", state.versions},
      {"exchange between workers", state.exchange},
      {"data set", workers * figures.data_bytes},
      {"LibTorch and Muster, each process", workers * figures.process_bytes + servers * figures.launcher_bytes},
      {"LibTorch and Muster, shared", figures.library_bytes},
      {"the process that starts the workers", figures.launcher_bytes}};
  keep_what_counts(estimate.items);
  const bool training_takes_more = MemoryEstimate{training}.total() >= MemoryEstimate{starting}.total();
  const std::vector<MemoryItem>& most = training_takes_more ? training : starting;
  estimate.items.insert(estimate.items.begin() + (estimate.items.empty() ? 0 : 1), most.begin(), most.end());
  return estimate;
}

std::string describe(const MemoryEstimate& estimate, std::uint64_t workers) {
  std::vector<MemoryItem> items = estimate.items;
  std::ranges::stable_sort(items, std::greater{}, &MemoryItem::bytes);
  std::vector<std::string> words;
  for (const MemoryItem& item : items)
    words.push_back(fmt::format("{} {}", item.name, human_bytes(item.bytes)));
  return fmt::format("{} for {} worker{}: {}", human_bytes(estimate.total()), workers, workers == 1 ? "" : "s",
                     fmt::join(words, "; "));
}

std::vector<std::string> changes_that_fit(const MemoryFigures& figures, std::uint64_t usable_bytes) {
  std::vector<std::string> changes;
  const auto fits = [&](const MemoryFigures& changed, const std::string& words) {
    const std::uint64_t total = estimate_memory(changed).total();
    if (total > usable_bytes) return false;
    changes.push_back(fmt::format("{} ({})", words, human_bytes(total)));
    return true;
  };
  for (MemoryFigures less = figures; less.batch / 2 >= kLeastLaneSamples * figures.lanes;) {
    less.batch /= 2;
    if (fits(less, fmt::format("data.batch = {}", less.batch))) break;
  }
  for (MemoryFigures more = figures;
       more.lanes * 2 <= kMostAdvisedLanes && more.batch >= more.lanes * 2 * kLeastLaneSamples;) {
    more.lanes *= 2;
    if (fits(more, fmt::format("job.lanes = {}", more.lanes))) break;
  }
  for (MemoryFigures fewer = figures; fewer.workers > 1;) {
    --fewer.workers;
    if (fits(fewer, fmt::format("parallel.workers = {}", fewer.workers))) break;
  }
  for (MemoryFigures plainer = figures; plainer.slots > 0;) {
    --plainer.slots;
    if (fits(plainer, plainer.slots == 0 ? "sgd with momentum = 0" : "sgd with momentum instead of adam")) break;
  }
  for (const strategies::StrategyChoice& other : strategies::all_strategies()) {
    if (!other.traits().shares_host_memory || other.is_kind_of(figures.strategy)) continue;
    MemoryFigures shared = figures;
    shared.strategy = other;
    fits(shared, fmt::format("parallel.strategy = \"{}\"", other.name()));
  }
  return changes;
}

Error memory_refusal(const MemoryFigures& figures, const Memory& usable) {
  const MemoryEstimate estimate = estimate_memory(figures);
  std::string message = fmt::format(
      "the job needs about {} of memory on this host, and there is {}:", human_bytes(estimate.total()), usable.reason);
  for (const MemoryItem& item : estimate.items)
    message += fmt::format("\n  {:<46}{:>10}", item.name, human_bytes(item.bytes));
  if (!figures.unmeasured.empty()) message += fmt::format("\n  {:<46}{:>10}", "activations", "unknown");
  message += fmt::format("\n  {:<46}{:>10}\n", "all", human_bytes(estimate.total()));
  std::vector<std::string> changes = changes_that_fit(figures, usable.usable_bytes);
  std::string remedy = changes.empty()
                           ? "No one change of batch, lanes, workers or optimizer is enough: choose a smaller model, "
                             "several of these, or a host with more memory."
                           : fmt::format("Any of these makes it fit: {}.", join_words(changes));
  if (figures.may_recompute) remedy += " model.recompute = true takes less for activations.";
  return {ErrorKind::kUnsupported, message, {}, remedy + " --ignore-memory starts it all the same."};
}

}  // namespace muster::trainer
