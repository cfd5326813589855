// muster bench arena: what one synchronous update costs, without the computing: all lanes are there, and the workers
// reduce them, apply the optimizer to their slices and commit. Beside it, what the same bytes cost to copy.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/comm/shm_backend.h"
#include "muster/comm/store.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/strategies/strategy.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kStepTimeout{60};
constexpr std::int64_t kTensorRow = 1024;

// Tensors of 4 MiB and a rest, as models have a few large ones.
model::FlatLayout make_layout(std::int64_t parameters) {
  std::vector<model::TensorInfo> tensors;
  for (std::int64_t left = parameters; left > 0; left -= kTensorRow * kTensorRow)
    tensors.push_back({fmt::format("t{}", tensors.size()), {std::min(left, kTensorRow * kTensorRow)}, true});
  return model::FlatLayout(tensors);
}

class ArenaRank {
 public:
  ArenaRank(const ArenaBench& options, comm::Group group) : options_(options), group_(std::move(group)) {}

  void run(const std::string& name, const compute::OptimizerOptions& optimizer_options) {
    const auto optimizer = compute::make_optimizer(optimizer_options);
    const auto lanes = static_cast<std::size_t>(std::max<std::int64_t>(options_.lanes, group_.size()));
    strategies::StrategyOptions strategy_options{make_layout(parameters()), {}, optimizer->slots(), lanes, group_};
    const auto strategy = strategies::SharedSync{}.make(strategy_options);
    start(*strategy, strategy_options);
    const std::vector<compute::TensorRule> rules(strategy_options.layout.tensors().size());
    const data::BatchShape shape{1U << 20, 4 * lanes, lanes};
    std::vector<double> times;
    std::vector<double> copies;
    std::vector<float> from(parameters_per_rank(), 1.0F);
    std::vector<float> to(from.size());
    for (std::int64_t round = -2; round < options_.rounds; ++round) {
      strategy->begin_step(data::plan_step(strategy->committed().cursor, shape));
      while (const auto lane = strategy->claim()) {
        if (round == -2) fill(strategy->area(*lane));
        strategy->finish(*lane, {});
      }
      group_.barrier();
      auto clock = system_clock().now();
      strategy->commit({optimizer.get(), 1e-3, std::nullopt, rules}, Deadline::after(kStepTimeout));
      const double update = slowest(microseconds_since(clock));
      clock = system_clock().now();
      std::copy(from.begin(), from.end(), to.begin());
      const double copy = slowest(microseconds_since(clock));
      if (round < 0) continue;  // the first turns touch memory for the first time
      times.push_back(update);
      copies.push_back(copy);
    }
    if (group_.rank() == 0) print(name, lanes, median(times), median(copies));
  }

 private:
  std::int64_t parameters() const { return static_cast<std::int64_t>(parse_bytes(options_.size) / sizeof(float)); }
  std::size_t parameters_per_rank() const {
    return static_cast<std::size_t>(parameters()) / static_cast<std::size_t>(group_.size());
  }
  double slowest(double value) {
    group_.all_reduce(std::span(&value, 1), comm::Reduction::kMax);
    return value;
  }
  static void start(strategies::Strategy& strategy, const strategies::StrategyOptions& options) {
    const std::vector<float> zeros(options.layout.size());
    const std::vector<std::uint64_t> updates(options.layout.tensors().size());
    strategies::CommittedState state{zeros, {}, updates, {}, {}};
    for (int slot = 0; slot < options.slots; ++slot)
      state.state[static_cast<std::size_t>(slot)] = zeros;
    strategy.restore(state);
  }
  static void fill(const compute::LaneArea& area) {
    std::fill(area.present.begin(), area.present.end(), std::uint8_t{1});
    for (std::size_t i = 0; i < area.gradient.size(); ++i)
      area.gradient[i] = 1e-2F * static_cast<float>(i % 7) - 3e-2F;
  }
  void print(const std::string& name, std::size_t lanes, double time, double copy) const {
    const double bytes = 4.0 * static_cast<double>(parameters());
    print_row({{"bench", "arena"},
               {"optimizer", name},
               {"bytes", static_cast<std::int64_t>(bytes)},
               {"ranks", group_.size()},
               {"lanes", lanes},
               {"median_us", time},
               {"ns_per_byte", 1e3 * time / bytes},
               {"times_copy", time / copy}},
              options_.json);
  }

  const ArenaBench& options_;
  comm::Group group_;
};

}  // namespace

void bench_arena(const ArenaBench& options) {
  parse_bytes(options.size);
  if (options.rank_folder.empty()) {
    for (const std::int64_t ranks : options.ranks) {
      run_rank_processes(ranks, false, [&](const std::string& folder) {
        std::vector<std::string> words{"bench",         "arena",
                                       "--rank-folder", folder,
                                       "--ranks",       fmt::to_string(ranks),
                                       "--size",        options.size,
                                       "--lanes",       fmt::to_string(options.lanes),
                                       "--rounds",      fmt::to_string(options.rounds)};
        if (options.json) words.emplace_back("--json");
        return words;
      });
    }
    return;
  }
  const auto store = comm::make_file_store(options.rank_folder);
  const auto size = static_cast<int>(options.ranks.front());
  comm::Group group;
  if (size > 1)
    group =
        comm::Group(comm::make_shm_backend(static_cast<int>(options.rank), size, store, Deadline::after(kStepTimeout)),
                    kStepTimeout);
  ArenaRank rank(options, group);
  rank.run("sgd", compute::Sgd{.lr = 1e-3, .momentum = 0.9});
  rank.run("adam", compute::Adam{});
  group.barrier();
}

}  // namespace muster::cli
