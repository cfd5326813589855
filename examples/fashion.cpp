// The training loop in C++: the data and model of fashion.toml, three lines of Muster around the LibTorch you know.
//   ./build/release/examples/fashion [EPOCHS] [STEPS_PER_EPOCH]
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "muster/muster.h"

int main(int argc, char** argv) try {
  const auto epochs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  const auto most_steps =
      argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::numeric_limits<unsigned long long>::max();

  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);  // the first weights
  auto data = muster::open_source({.source = "fashion-mnist"});
  auto net = muster::zoo::cnn({.channels = 1, .height = 28, .width = 28, .classes = 10});
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4},
                                     {.batch = 128, .lanes = 2});

  session.meet(data.train);  // a worker that replaces a lost one begins where the others are
  while (session.cursor().epoch < epochs && session.cursor().step < most_steps) {
    const std::uint64_t epoch = session.cursor().epoch + 1;
    net->train();
    for (auto& lane : session.lanes(data.train)) {
      if (lane.step == most_steps) break;  // by step, so that all workers leave at the same one
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
    const auto test = muster::evaluate(
        *net, [&](const torch::Tensor& x) { return net->forward(x); }, data.test);
    if (session.members().leads()) std::printf("epoch %lu: test accuracy %.4f\n", epoch, test->metric("accuracy"));
  }
  session.save("fashion.safetensors");
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
