// Parameter servers by hand: three workers fit a plane through noisy points, each at its own speed, and the servers
// apply their gradients by a rule of this program's own: every parameter goes one step against its gradient's sign.
#include <array>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/strategies/parameter_server/local_servers.h"

using muster::strategies::ClientOptions;
using muster::strategies::LocalServers;
using muster::strategies::ParameterClient;

constexpr std::size_t kFeatures = 8;
constexpr std::uint32_t kWorkers = 3;
constexpr int kSteps = 600, kBatch = 16;

void sign_update(std::span<float> parameters, std::span<const float> gradient, double rate) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i] -= std::copysign(static_cast<float>(rate), gradient[i]);
}

struct Sample {
  std::array<float, kFeatures> x{};
  float y = 0;
};

// The true weights are 0, 1, ... 7.
Sample draw(muster::RandomStream& random) {
  Sample sample;
  for (std::size_t i = 0; i < kFeatures; ++i) {
    sample.x[i] = static_cast<float>(2 * random.uniform() - 1);
    sample.y += static_cast<float>(i) * sample.x[i];
  }
  sample.y += static_cast<float>(0.1 * random.uniform() - 0.05);
  return sample;
}

float error_of(const Sample& sample, const std::vector<float>& weights) {
  float guess = 0;
  for (std::size_t i = 0; i < kFeatures; ++i)
    guess += weights[i] * sample.x[i];
  return guess - sample.y;
}

void work(ParameterClient& client, std::uint64_t seed) {
  muster::RandomStream random({.seed = seed});
  std::vector<float> weights(kFeatures);
  client.wait(client.pull("weights", weights));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> gradient(kFeatures);
    for (int n = 0; n < kBatch; ++n) {
      const Sample sample = draw(random);
      const float error = error_of(sample, weights);
      for (std::size_t i = 0; i < kFeatures; ++i)
        gradient[i] += error * sample.x[i];
    }
    // Nobody waits for the others: what comes back has whatever they have pushed meanwhile.
    const double rate = 0.05 * (1 - static_cast<double>(step) / kSteps);
    client.wait(client.push_pull("weights", gradient, rate, weights));
  }
}

double loss(ParameterClient& client) {
  std::vector<float> weights(kFeatures);
  client.wait(client.pull("weights", weights));
  muster::RandomStream random({.seed = 99});
  double sum = 0;
  for (int n = 0; n < 1000; ++n)
    sum += std::pow(error_of(draw(random), weights), 2) / 1000;
  return sum;
}

int main() try {
  muster::strategies::ServerPlan plan;
  plan.layout = muster::model::FlatLayout({{"weights", {kFeatures}}});
  plan.separate_tensors = true;
  plan.workers = kWorkers + 1;  // and one that watches
  plan.servers = 2;
  const LocalServers servers(plan, {.update = sign_update});
  const auto connect = [&](std::uint32_t number) {
    return std::make_unique<ParameterClient>(ClientOptions{.number = number, .store = servers.store()});
  };
  const auto watcher = connect(kWorkers);
  std::printf("loss before: %.4f\n", loss(*watcher));
  std::vector<std::jthread> workers;  // ended by clear(), which waits for them
  for (std::uint32_t number = 0; number < kWorkers; ++number)
    workers.emplace_back([&, number] { work(*connect(number), number); });
  workers.clear();
  const double after = loss(*watcher);
  std::printf("loss after:  %.4f\n", after);
  return after < 0.01 ? 0 : 1;
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
