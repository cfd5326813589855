// A user's program against the installed package: headers, libmuster and LibTorch come with muster::muster alone.
#include "muster/muster.h"

#include <cstdio>

int main(int argc, char** argv) {
  // The loop of the README, on data that need no file: it must learn, and an error must cross the library's boundary.
  auto worker = muster::join(argc, argv);
  auto data = muster::open_source({.source = "synthetic", .shape = {16}, .classes = 3, .samples = 512});
  torch::manual_seed(1);
  auto net = muster::zoo::mlp({.inputs = 16, .hidden = {32}, .classes = 3});
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 0.01}, {.batch = 64});
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& lane : session.lanes(data.train)) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
  }
  if (session.cursor().step != 40) return 1;
  const auto result = muster::evaluate(
      *net, [&](const torch::Tensor& x) { return net->forward(x); }, data.train);
  if (result->metric("accuracy") < 0.9) return 2;
  try {
    muster::open_source({.source = "synthetik"});
    return 3;
  } catch (const muster::Error& error) {
    if (error.kind() != muster::ErrorKind::kInvalidInput) return 4;
  }
  std::puts("the consumer works");
  return 0;
}
