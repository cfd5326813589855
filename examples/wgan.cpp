// A Wasserstein GAN (Arjovsky, Chintala, Bottou 2017): five steps of the critic for each of the generator, weights of
// the critic clamped after every step, an RMSprop of the program's own, and a moving average of the generator.
//   ./build/release/examples/wgan [STEPS]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

constexpr std::int64_t kNoise = 32;

torch::nn::Sequential make_generator() {
  return torch::nn::Sequential(torch::nn::Linear(kNoise, 128), torch::nn::ReLU(), torch::nn::Linear(128, 784),
                               torch::nn::Tanh());
}

// torch::optim::RMSprop without momentum, for one block of a tensor.
muster::OwnOptimizer rmsprop(double lr) {
  return {.name = "rmsprop",
          .lr = lr,
          .slots = {"square_avg"},
          .update = [](const auto& in, const auto& step, const auto& out) {
            const auto rate = static_cast<float>(step.lr);
            for (std::size_t i = 0; i < in.parameters.size(); ++i) {
              const float gradient = in.gradient_scale * in.gradient[i];
              out.state[0][i] = 0.99F * in.state[0][i] + 0.01F * gradient * gradient;
              out.parameters[i] = in.parameters[i] - rate * gradient / (std::sqrt(out.state[0][i]) + 1e-8F);
            }
          }};
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1200;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  auto data = muster::open_source({.source = "fashion-mnist"});
  auto generator = make_generator();
  auto average = make_generator();  // no optimizer: only what is written below changes it
  torch::nn::Sequential critic(torch::nn::Linear(784, 128),
                               torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)),
                               torch::nn::Linear(128, 1));

  muster::SessionOptions options{.batch = 64, .lanes = 2};
  // A part of the commit: it counts once, whoever is lost, and everybody sees it in the next step.
  options.after_commit = [=](const muster::Cursor& after) {
    for (torch::Tensor& weight : critic->parameters())
      weight.clamp_(-0.01, 0.01);
    if (after.step % 6 != 0) return;
    const auto from = generator->parameters();
    auto to = average->parameters();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i].mul_(0.99).add_(from[i], 0.01);
  };
  auto session = muster::synchronize(
      worker, {{"generator", generator, rmsprop(5e-5)}, {"critic", critic, rmsprop(5e-5)}, {"average", average}},
      options);
  session.resume("wgan");

  session.meet(data.train);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 60 + 1) * 60, steps);
    session.train_until(next, data.train, [&](muster::Lane& lane) {
      const torch::Tensor noise = torch::randn({static_cast<std::int64_t>(lane.ids.size()), kNoise});
      if (lane.step % 6 == 5) {  // by the step, so that all lanes of it agree
        lane.backward(-critic->forward(generator->forward(noise)).mean(), "generator");
      } else {
        const torch::Tensor real = lane.data.flatten(1) * 2 - 1;
        const torch::Tensor distance =
            critic->forward(real).mean() - critic->forward(generator->forward(noise).detach()).mean();
        lane.report("distance", distance);
        lane.backward(-distance, "critic");
      }
    });
    session.checkpoint("wgan");
    if (!session.members().leads()) continue;
    std::printf("step %lu: loss %.6f\n", session.cursor().step, session.last_outcome().loss);
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
