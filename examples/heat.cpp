// A net that solves an equation (a physics-informed net, Raissi et al. 2019): heat in a rod, u_t = 0.1 u_xx, with ends
// that are kept cold. There is no data: each step draws points and asks how far the net is from the equation there, by
// gradients of gradients.
//   ./build/release/examples/heat [STEPS]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

constexpr double kPi = 3.14159265358979, kFlow = 0.1;
constexpr std::int64_t kPoints = 256;

// The temperature at (place, time). What is known holds whatever the net says: at time 0, and at both ends.
torch::Tensor temperature(torch::nn::Sequential& net, const torch::Tensor& points) {
  const torch::Tensor place = points.select(1, 0), time = points.select(1, 1);
  return (kPi * place).sin() + time * place * (1 - place) * net->forward(points).squeeze(1);
}

torch::Tensor gradient(const torch::Tensor& of, const torch::Tensor& points) {
  return torch::autograd::grad({of.sum()}, {points}, {}, true, /*create_graph=*/true)[0];
}

// By how much the equation is missed.
torch::Tensor missed(torch::nn::Sequential& net, const torch::Tensor& drawn) {
  const torch::Tensor points = drawn.detach().requires_grad_();
  const torch::Tensor first = gradient(temperature(net, points), points);
  const torch::Tensor second = gradient(first.select(1, 0), points).select(1, 0);
  return first.select(1, 1) - kFlow * second;
}

// Against the solution that is known here.
double largest_error(torch::nn::Sequential& net) {
  const torch::NoGradGuard no_grad;
  const auto axes = torch::meshgrid({torch::linspace(0, 1, 33), torch::linspace(0, 1, 33)}, "ij");
  const torch::Tensor points = torch::stack({axes[0].flatten(), axes[1].flatten()}, 1);
  const torch::Tensor known = (kPi * points.select(1, 0)).sin() * (-kFlow * kPi * kPi * points.select(1, 1)).exp();
  return (temperature(net, points) - known).abs().max().item<double>();
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 32), torch::nn::Tanh(),
                            torch::nn::Linear(32, 1));
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 5e-3}, {.batch = kPoints, .lanes = 2});
  session.resume("heat-checkpoints");

  session.meet();
  while (session.cursor().step < steps) {
    // By the step alone, so that every worker draws the same, also one that comes later.
    torch::manual_seed(session.cursor().step);
    session.step({torch::rand({kPoints, 2})},
                 [&](muster::Lane& lane) { lane.backward(missed(net, lane.tensors[0]).pow(2).mean()); });
    if (session.cursor().step % 100 != 0) continue;
    session.checkpoint("heat-checkpoints");
    if (!session.members().leads()) continue;
    std::printf("step %lu: wrong by %.5f\n", session.cursor().step, largest_error(net));
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
