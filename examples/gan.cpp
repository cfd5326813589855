// A generator and its discriminator in one session: two optimizers, one step, one commit, one checkpoint.
//   ./build/release/examples/gan [STEPS]
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

namespace F = torch::nn::functional;

constexpr std::int64_t kNoise = 32;

torch::nn::Sequential make_generator() {
  return torch::nn::Sequential(torch::nn::Linear(kNoise, 128), torch::nn::BatchNorm1d(128), torch::nn::ReLU(),
                               torch::nn::Linear(128, 784), torch::nn::Tanh());
}

torch::nn::Sequential make_discriminator() {
  return torch::nn::Sequential(torch::nn::Linear(784, 128),
                               torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
                               torch::nn::Dropout(0.3), torch::nn::Linear(128, 1));
}

// How far scores are from saying "real" (1) or "made" (0) of every picture.
torch::Tensor error(const torch::Tensor& scores, double answer) {
  return F::binary_cross_entropy_with_logits(scores, torch::full_like(scores, answer));
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  auto data = muster::open_source({.source = "fashion-mnist"});
  auto generator = make_generator();
  auto discriminator = make_discriminator();
  auto session = muster::synchronize(worker,
                                     {{"generator", generator, muster::Adam{.lr = 2e-4, .beta1 = 0.5}},
                                      {"discriminator", discriminator, muster::Adam{.lr = 1e-4, .beta1 = 0.5}}},
                                     {.batch = 128, .lanes = 4});
  session.resume("gan");

  session.meet(data.train);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 50 + 1) * 50, steps);
    session.train_until(next, data.train, [&](muster::Lane& lane) {
      const torch::Tensor real = lane.data.flatten(1) * 2 - 1;
      const torch::Tensor made = generator->forward(torch::randn({real.size(0), kNoise}));
      const torch::Tensor judged =
          error(discriminator->forward(real), 1) + error(discriminator->forward(made.detach()), 0);
      const torch::Tensor fooled = error(discriminator->forward(made), 1);
      // Each loss gives gradients to its own part; both parts move when the step is committed.
      lane.backward(judged, "discriminator");
      lane.backward(fooled, "generator");
      lane.report("discriminator", judged);
      lane.report("generator", fooled);
    });
    session.checkpoint("gan");
    if (!session.members().leads()) continue;
    const auto& last = session.last_outcome();
    std::printf("step %lu: discriminator %.4f, generator %.4f\n", session.cursor().step,
                last.figure("discriminator").value_or(0), last.figure("generator").value_or(0));
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
