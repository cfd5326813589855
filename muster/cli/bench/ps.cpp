// muster bench ps: how fast workers push to parameter servers and pull from them, each of them a process.
//
// Dense: every worker pushes a gradient of all parameters, by which the servers take a step of SGD, and pulls the
// result. Sparse: the same with rows of a table for batches of random keys. No torch here.
#include "muster/cli/bench/ps.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/random.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/bench/rank_processes.h"
#include "muster/comm/region.h"
#include "muster/comm/shm_backend.h"
#include "muster/comm/store.h"
#include "muster/strategies/parameter_server/grpc_transport.h"
#include "muster/strategies/parameter_server/parameter_client.h"
#include "muster/strategies/parameter_server/server_thread.h"

namespace muster::cli {
namespace {

using strategies::ParameterClient;

constexpr std::chrono::minutes kTimeout{10};  // servers wait so long for the workers to be done
constexpr const char* kToken = "bench";       // the address is of loopback, and known to nobody else
constexpr const char* kTable = "rows";
constexpr double kRate = 1e-3;
constexpr int kBatches = 8;  // of keys, used in turn: to make them takes time

class PsRank {
 public:
  PsRank(const PsBench& options, std::shared_ptr<comm::Store> store, comm::Group group)
      : options_(options),
        store_(std::move(store)),
        group_(std::move(group)),
        servers_(static_cast<int>(options.servers)),
        plan_(make_plan()) {}

  void run() {
    if (group_.rank() == 0) put_plan(*store_, plan_);
    if (group_.rank() < servers_) return serve();
    strategies::ClientOptions client_options;
    client_options.number = static_cast<std::uint32_t>(group_.rank() - servers_);
    client_options.store = store_;
    if (over_grpc())
      client_options.connect = [this](const std::string& address, std::uint32_t client, const Deadline& deadline) {
        return strategies::connect_grpc(address, kToken, client, plan_.limits(), deadline);
      };
    if (client_options.number == 0) put_first_map(*store_, plan_, Deadline::after(kTimeout));
    ParameterClient client(client_options, kTimeout);
    if (client_options.number == 0) client.fill();
    if (options_.sparse) fill_table(client);
    group_.barrier();
    std::vector<double> times;
    double seconds = 0;
    options_.sparse ? measure_rows(client, times, seconds) : measure_parameters(client, times, seconds);
    finish(times, seconds);
  }

 private:
  bool over_grpc() const { return options_.transport == "grpc"; }
  std::size_t floats() const { return static_cast<std::size_t>(options_.mb * 1e6 / sizeof(float)); }

  strategies::ServerPlan make_plan() const {
    strategies::ServerPlan plan;
    plan.layout = model::FlatLayout({{"all", {static_cast<std::int64_t>(options_.sparse ? 16 : floats())}}});
    plan.rules.resize(1);
    plan.optimizer = compute::Sgd{.lr = kRate};
    plan.chunk_floats = static_cast<std::size_t>(options_.chunk_kb) * 1024 / sizeof(float);
    plan.separate_tensors = true;
    plan.workers = static_cast<std::uint32_t>(options_.workers);
    plan.servers = static_cast<std::uint32_t>(options_.servers);
    if (options_.sparse) {
      strategies::TableOptions table;
      table.name = kTable;
      table.width = static_cast<std::uint32_t>(options_.width);
      plan.tables = {{table, plan.servers}};
    }
    return plan;
  }

  // Until all workers are done.
  void serve() {
    strategies::ServerOptions options;
    options.number = static_cast<std::uint32_t>(group_.rank());
    options.store = store_;
    if (over_grpc())
      options.make_inbox = [](const strategies::TransportLimits& limits, std::size_t bytes) {
        return strategies::make_grpc_inbox(limits, bytes, "127.0.0.1:0", kToken);
      };
    const strategies::ServerThread server(std::move(options));
    group_.barrier();
    finish({}, 0);
  }

  // The first rounds touch memory for the first time. The time of all rounds, and of each.
  template <typename Round>
  void measure(const Round& round, std::vector<double>& times, double& seconds) const {
    for (std::int64_t warm = 0; warm < 2; ++warm)
      round(warm);
    const auto start = system_clock().now();
    auto last = start;
    for (std::int64_t i = 0; i < options_.rounds; ++i) {
      round(i);
      const auto now = system_clock().now();
      times.push_back(std::chrono::duration<double, std::micro>(now - last).count());
      last = now;
    }
    seconds = std::chrono::duration<double>(last - start).count();
  }

  void measure_parameters(ParameterClient& client, std::vector<double>& times, double& seconds) const {
    // Memory as that of a training worker.
    const auto region = comm::SharedRegion::create(2 * floats() * sizeof(float), {.shared = false});
    const std::span both(reinterpret_cast<float*>(region.bytes().data()), 2 * floats());
    const std::span<float> gradient = both.first(floats());
    const std::span<float> parameters = both.subspan(floats());
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = 1e-2F * static_cast<float>(i % 7) - 3e-2F;
    const auto round = [&](std::int64_t) { client.wait(client.push_pull("all", gradient, kRate, parameters)); };
    measure(round, times, seconds);
  }

  void measure_rows(ParameterClient& client, std::vector<double>& times, double& seconds) const {
    const auto batch = static_cast<std::size_t>(options_.batch);
    std::vector<float> gradients(batch * static_cast<std::size_t>(options_.width), 1e-2F);
    std::vector<float> rows(gradients.size());
    RandomStream random({.seed = 1, .lane = static_cast<std::uint64_t>(group_.rank())});
    std::vector<std::vector<std::int64_t>> keys(kBatches, std::vector<std::int64_t>(batch));
    for (std::vector<std::int64_t>& chosen : keys) {
      for (std::int64_t& key : chosen)
        key = static_cast<std::int64_t>(random.uniform() * static_cast<double>(options_.rows));
    }
    const auto round = [&](std::int64_t number) {
      const std::vector<std::int64_t>& chosen = keys[static_cast<std::size_t>(number % kBatches)];
      const auto pushed = client.push_rows(kTable, chosen, gradients, kRate);
      const auto pulled = client.pull_rows(kTable, chosen, rows);
      client.wait(pushed);
      client.wait(pulled);
    };
    measure(round, times, seconds);
  }

  // All rows, by all workers.
  void fill_table(ParameterClient& client) const {
    const std::vector<float> gradients(static_cast<std::size_t>(options_.batch * options_.width), 1e-2F);
    const std::int64_t first = group_.rank() - servers_;
    const auto most = static_cast<std::int64_t>(options_.batch);
    for (std::int64_t at = first * most; at < options_.rows; at += most * options_.workers) {
      std::vector<std::int64_t> keys(static_cast<std::size_t>(std::min(most, options_.rows - at)));
      std::iota(keys.begin(), keys.end(), at);
      const std::size_t used = keys.size() * static_cast<std::size_t>(options_.width);
      client.wait(client.push_rows(kTable, keys, std::span(gradients).first(used), kRate));
    }
  }

  void finish(std::vector<double> times, double seconds) {
    // The row is the slowest worker's story, but for the sum over all.
    double rate = seconds > 0 ? static_cast<double>(options_.rounds) / seconds : 0;
    double slowest = seconds;
    group_.all_reduce(std::span(&rate, 1), comm::Reduction::kSum);
    group_.all_reduce(std::span(&slowest, 1), comm::Reduction::kMax);
    if (group_.rank() == servers_) print(std::move(times), rate, static_cast<double>(options_.rounds) / slowest);
    group_.barrier();
  }

  void print(std::vector<double> times, double rate, double rate_of_slowest) const {
    std::sort(times.begin(), times.end());
    const auto quantile = [&](double share) {
      return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
    };
    const double keys = options_.sparse ? static_cast<double>(options_.batch) : 0;
    const double bytes = options_.sparse ? keys * static_cast<double>(options_.width) * sizeof(float)
                                         : static_cast<double>(floats() * sizeof(float));
    Json row{{"bench", "ps"},
             {"transport", options_.transport},
             {"servers", options_.servers},
             {"workers", options_.workers},
             {"mb", bytes / 1e6},
             {"gb_per_s", 2 * bytes * rate / 1e9},
             {"gb_per_s_per_worker", 2 * bytes * rate_of_slowest / 1e9},
             {"rows_per_s", 2 * keys * rate},
             {"p50_us", quantile(0.5)},
             {"p99_us", quantile(0.99)}};
    print_row(row, options_.json);
  }

  const PsBench& options_;
  const std::shared_ptr<comm::Store> store_;
  comm::Group group_;
  const int servers_;
  const strategies::ServerPlan plan_;
};

}  // namespace

void bench_ps(const PsBench& options) {
  const std::int64_t ranks = options.servers + options.workers;
  if (options.rank_folder.empty()) {
    run_rank_processes(ranks, false, [&](const std::string& folder) {
      std::vector<std::string> words{"bench", "ps", "--rank-folder", folder, "--transport", options.transport};
      const auto add = [&](const char* name, const auto& value) {
        words.insert(words.end(), {name, fmt::to_string(value)});
      };
      add("--servers", options.servers);
      add("--workers", options.workers);
      add("--mb", options.mb);
      add("--chunk-kb", options.chunk_kb);
      add("--rows", options.rows);
      add("--width", options.width);
      add("--batch", options.batch);
      add("--rounds", options.rounds);
      if (options.sparse) words.emplace_back("--sparse");
      if (options.json) words.emplace_back("--json");
      return words;
    });
    return;
  }
  const auto store = comm::make_file_store(options.rank_folder);
  PsRank rank(options, store,
              comm::Group(comm::make_shm_backend(static_cast<int>(options.rank), static_cast<int>(ranks), store,
                                                 Deadline::after(kTimeout)),
                          kTimeout));
  rank.run();
}

}  // namespace muster::cli
