// A user's program with parameter servers, for own_servers_test.cpp: every worker pushes ones, and in the end the first
// one says what the servers have, which is exact whoever was lost on the way. Without LibTorch's headers.
//
//   own_servers MODE [PUSHES]   MODE: "train"; "killed": the second worker dies once, half-way; "filled": the first
//                               one, when it has given the servers their first values; "differ": its plan is another;
//                               "slow": takes its time; "rule": by an update of the program's own; "late": servers
//                               take longer to come than the program's calls wait
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/trainer/servers.h"

namespace {

constexpr std::size_t kFloats = 40000;
constexpr std::size_t kWidth = 4;

// Whole numbers below 2^24: sums of floats are exact.
void add(std::span<float> parameters, std::span<const float> gradient, double rate) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] += static_cast<float>(rate) * gradient[i];
}

void train(muster::trainer::Servers& servers, const muster::trainer::Worker& worker, const std::string& mode,
           int pushes) {
  muster::strategies::ParameterClient& client = servers.client();
  const std::vector<float> ones(kFloats, 1);
  const std::vector<float> row(kWidth, 1);
  std::vector<float> weights(kFloats);
  const std::filesystem::path mark = "was-killed";
  for (int push = 0; push < pushes; ++push) {
    if (mode == "slow")
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // sleeps: stands for work between pushes
    client.wait(client.push_pull("weights", ones, 1, weights));
    const std::int64_t key = push % 50;
    client.wait(client.push_rows("words", std::span(&key, 1), row, 1));
    if (mode == "killed" && worker.rank() == 1 && push + 1 == pushes / 2 && !std::filesystem::exists(mark)) {
      std::filesystem::create_directory(mark);
      ::raise(SIGKILL);
    }
  }
}

void report(muster::strategies::ParameterClient& client) {
  std::vector<float> weights(kFloats);
  client.wait(client.pull("weights", weights));
  std::vector<std::int64_t> keys(50);
  for (std::size_t key = 0; key < keys.size(); ++key)
    keys[key] = static_cast<std::int64_t>(key);
  std::vector<float> rows(keys.size() * kWidth);
  client.wait(client.pull_rows("words", keys, rows));
  double all = 0;
  for (const float value : rows)
    all += value;
  bool equal = true;
  for (const float value : weights)
    equal = equal && value == weights.front();
  std::printf("weights %.0f%s, rows %.0f\n", static_cast<double>(weights.front()), equal ? "" : " and others", -all);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string mode = argc > 1 ? argv[1] : "train";
  const int pushes = argc > 2 ? std::atoi(argv[2]) : 200;
  muster::trainer::JoinOptions options{.server_update = mode == "rule" ? add : nullptr};
  if (mode == "late") {
    options.timeout = std::chrono::milliseconds(200);
    muster::arm_failpoints("server.start=delay=2000");
  }
  const auto worker = muster::trainer::join(argc, argv, options);
  muster::strategies::ServerPlan plan;
  plan.layout = muster::model::FlatLayout({{"weights", {static_cast<std::int64_t>(kFloats)}}});
  plan.optimizer = muster::compute::Sgd{};
  plan.chunk_floats = 16384;
  if (mode == "differ" && worker.rank() == 1) plan.optimizer = muster::compute::Sgd{.momentum = 0.5};
  plan.tables = {{{.name = "words", .width = kWidth, .init_scale = 0}, 4}};
  if (mode == "filled" && worker.rank() == 0 && std::filesystem::create_directory("was-killed"))
    muster::arm_failpoints("servers.filled=kill");
  muster::trainer::Servers servers(worker, plan, [](const std::string&, std::span<float> values) {
    for (float& value : values)
      value = 1;
  });
  train(servers, worker, mode, pushes);
  servers.barrier();
  if (worker.rank() == 0) report(servers.client());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
