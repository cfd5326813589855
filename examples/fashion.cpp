// The training loop in C++: the data and model of fashion.toml, three lines of Muster around the LibTorch you know.
//   ./build/release/examples/fashion [EPOCHS] [STEPS_PER_EPOCH]
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "muster/muster.h"

int main(int argc, char** argv) try {
  const int epochs = argc > 1 ? std::atoi(argv[1]) : 3;
  const auto most_steps =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::numeric_limits<unsigned long long>::max();

  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);  // the first weights
  auto data = muster::open_source({.source = "fashion-mnist"});
  auto net = muster::zoo::cnn({.channels = 1, .height = 28, .width = 28, .classes = 10});
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4},
                                     {.batch = 128, .lanes = 2});

  for (int epoch = 0; epoch < epochs; ++epoch) {
    const std::uint64_t first = session.cursor().step;
    net->train();
    for (auto& lane : session.lanes(data.train)) {
      if (lane.step - first == most_steps) break;  // by step, so that all workers leave at the same one
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
    const auto test = muster::evaluate(
        *net, [&](const torch::Tensor& x) { return net->forward(x); }, data.test);
    if (worker.is_first()) std::printf("epoch %d: test accuracy %.4f\n", epoch + 1, test->accuracy);
  }
  if (worker.is_first()) session.save("fashion.safetensors");
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
