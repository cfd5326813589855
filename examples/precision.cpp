// One model in four precisions: how many samples a second of processor time trains, and what the loss comes to.
//   ./build/release/examples/precision [STEPS]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "muster/muster.h"

torch::nn::Sequential make_net() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(784, 512), torch::nn::ReLU(), torch::nn::Linear(512, 512),
                               torch::nn::ReLU(), torch::nn::Linear(512, 10));
}

void train(const muster::Worker& worker, const std::shared_ptr<const muster::Dataset>& data, const std::string& name,
           torch::ScalarType type, bool autocast, std::uint64_t steps) {
  torch::nn::Sequential net = make_net();
  net->to(type);
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.05, .momentum = 0.9}, {.batch = 128, .lanes = 2});
  double loss = 0;
  std::uint64_t timed = 0;
  std::clock_t start = 0;
  session.meet(data);
  while (session.cursor().step < steps) {
    const auto outcome = session.step(data, [&](muster::Lane& lane) {
      torch::Tensor scores;
      {
        const muster::Autocast mixed(autocast);
        scores = net->forward(lane.data.flatten(1).to(type));
      }
      if (type != torch::kFloat64) scores = scores.to(torch::kFloat32);
      lane.backward(torch::nn::functional::cross_entropy(scores, lane.target));
    });
    loss = 0.9 * loss + 0.1 * outcome.loss;
    if (session.cursor().step <= 3) {
      start = std::clock();  // what is done once is no speed
      timed = session.cursor().step;
    }
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-9s %7.0f samples/s   loss %.3f after %lu steps\n", name.c_str(),
              128 * static_cast<double>(session.cursor().step - timed) / seconds, loss, session.cursor().step);
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200;
  const auto worker = muster::join(argc, argv);
  if (worker.size() > 1) {
    std::fprintf(stderr, "precision measures one worker: start it without muster run -n %d\n", worker.size());
    return 2;
  }
  const auto data = muster::open_source({.source = "fashion-mnist"}).train;
  train(worker, data, "float", torch::kFloat32, false, steps);
  train(worker, data, "autocast", torch::kFloat32, true, steps);
  train(worker, data, "bfloat16", torch::kBFloat16, false, steps);
  train(worker, data, "double", torch::kFloat64, false, steps);
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
