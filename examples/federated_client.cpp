// A client of federated training with a training of its own, and without LibTorch: softmax regression on clusters of
// points. Any model of one linear layer at the server fits: muster federated server JOB with [model] name = "mlp",
// hidden = [0].
//   ./federated_client ADDRESS:PORT NAME [CERTS]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/federated/own_client.h"

using muster::federated::OwnTask;

namespace {

struct Sample {
  std::vector<float> values;
  std::size_t label = 0;
};

// What this client has, and nobody else sees.
std::vector<Sample> own_samples(std::size_t inputs, std::size_t classes, std::uint32_t seed) {
  std::mt19937 draws(seed);
  std::normal_distribution<float> wobble(0, 0.5F);
  std::vector<Sample> samples(120);
  for (std::size_t n = 0; n < samples.size(); ++n) {
    samples[n].label = n % classes;
    for (std::size_t i = 0; i < inputs; ++i)
      samples[n].values.push_back((i % classes == samples[n].label ? 2.0F : 0.0F) + wobble(draws));
  }
  return samples;
}

// A pass over the samples by stochastic gradient descent; gives the mean loss.
double pass(const std::vector<Sample>& samples, float rate, std::span<float> weight, std::span<float> bias) {
  const std::size_t inputs = weight.size() / bias.size();
  double loss = 0;
  for (const Sample& sample : samples) {
    std::vector<float> chances(bias.begin(), bias.end());
    for (std::size_t c = 0; c < bias.size(); ++c)
      for (std::size_t i = 0; i < inputs; ++i)
        chances[c] += weight[c * inputs + i] * sample.values[i];
    const float largest = *std::max_element(chances.begin(), chances.end());
    float total = 0;
    for (float& chance : chances)
      total += chance = std::exp(chance - largest);
    loss -= std::log(std::max(chances[sample.label] / total, 1e-12F)) / static_cast<double>(samples.size());
    for (std::size_t c = 0; c < bias.size(); ++c) {
      const float slope = rate * (chances[c] / total - (c == sample.label ? 1.0F : 0.0F));
      bias[c] -= slope;
      for (std::size_t i = 0; i < inputs; ++i)
        weight[c * inputs + i] -= slope * sample.values[i];
    }
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: federated_client ADDRESS:PORT NAME [CERTS]\n");
    return 2;
  }
  std::vector<Sample> samples;
  muster::federated::JoinOptions options;
  options.address = argv[1];
  options.name = argv[2];
  if (argc > 3) options.certs = argv[3];
  options.samples = 120;
  options.tell = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
  try {
    const auto summary = muster::federated::join(options, [&](OwnTask& task) {
      // A matrix and a bias, in any order.
      const std::size_t at = task.tensors.empty() || task.tensors[0].shape.size() == 2 ? 0 : 1;
      if (task.tensors.size() != 2 || task.tensors[at].shape.size() != 2)
        throw muster::Error(muster::ErrorKind::kUnsupported, "this client trains a linear classifier alone", {},
                            "Let the job have model.name = \"mlp\" and model.hidden = [0].");
      const auto classes = static_cast<std::size_t>(task.tensors[at].shape[0]);
      const auto inputs = static_cast<std::size_t>(task.tensors[at].shape[1]);
      if (samples.empty()) samples = own_samples(inputs, classes, 7);
      double loss = 0;
      for (std::int64_t epoch = 0; epoch < task.epochs; ++epoch)
        loss = pass(samples, static_cast<float>(0.05 * task.rate),
                    task.model.subspan(task.tensors[at].offset, classes * inputs),
                    task.model.subspan(task.tensors[1 - at].offset, classes));
      return loss;
    });
    std::printf("finished: %s; %llu updates counted\n", summary.ending.c_str(),
                static_cast<unsigned long long>(summary.accepted));
  } catch (const muster::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
