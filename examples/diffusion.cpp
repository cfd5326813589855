// Denoising diffusion (Ho et al. 2020) of points on two moons: a net learns to tell the noise in a point, its moving
// average makes new points of noise alone. Written from docs/cpp-api.md.
//   ./build/release/examples/diffusion [EPOCHS]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

constexpr std::int64_t kPoints = 4096, kTimes = 40;

torch::Tensor moons() {
  const torch::Tensor angle = torch::rand({kPoints}) * M_PI, upper = torch::arange(kPoints) % 2 == 0;
  const torch::Tensor x = torch::where(upper, torch::cos(angle), 1 - torch::cos(angle)) - 0.5;
  const torch::Tensor y = torch::where(upper, torch::sin(angle), 0.5 - torch::sin(angle)) - 0.25;
  return torch::stack({x, y}, 1);
}

// How much of a point is left at each time.
torch::Tensor kept() {
  return torch::cumprod(1 - torch::linspace(1e-3, 0.3, kTimes), 0);
}

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::SiLU(), torch::nn::Linear(64, 64),
                               torch::nn::SiLU(), torch::nn::Linear(64, 2));
}

torch::Tensor noise_in(torch::nn::Sequential& net, const torch::Tensor& points, const torch::Tensor& time) {
  const torch::Tensor phase = time.to(torch::kFloat32).unsqueeze(1) * (M_PI / kTimes);
  return net->forward(torch::cat({points, torch::cos(phase), torch::sin(phase)}, 1));
}

// The error of the net on noise drawn here and now: a lane's draws are its own.
torch::Tensor loss_of(torch::nn::Sequential& net, const torch::Tensor& points) {
  const torch::Tensor time = torch::randint(kTimes, {points.size(0)}), noise = torch::randn_like(points);
  const torch::Tensor share = kept().index_select(0, time).unsqueeze(1);
  return torch::mse_loss(noise_in(net, share.sqrt() * points + (1 - share).sqrt() * noise, time), noise);
}

torch::Tensor draw(torch::nn::Sequential& net, std::int64_t count) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor shares = kept();
  torch::Tensor points = torch::randn({count, 2});
  for (std::int64_t time = kTimes - 1; time >= 0; --time) {
    const double share = shares[time].item<double>(), before = time > 0 ? shares[time - 1].item<double>() : 1;
    const torch::Tensor noise = noise_in(net, points, torch::full({count}, time));
    const torch::Tensor clean = (points - std::sqrt(1 - share) * noise) / std::sqrt(share);
    points = std::sqrt(before) * clean + std::sqrt(1 - before) * noise;
  }
  return points;
}

int main(int argc, char** argv) try {
  const std::uint64_t epochs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 30;
  const auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  const torch::Tensor points = moons();
  torch::nn::Sequential net = make_net(), average = make_net();
  muster::SessionOptions options{.batch = 128, .lanes = 4};
  options.after_commit = [&](const muster::Cursor& after) {
    const double pace = after.step < 100 ? 1 : 0.02;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      average->parameters()[i].lerp_(net->parameters()[i], pace);
  };
  auto session = muster::synchronize(worker, {{"net", net, muster::Adam{.lr = 2e-3}}, {"average", average}}, options);
  session.resume("diffusion-checkpoints");
  const auto numbers = muster::numbered(kPoints);
  session.meet(numbers);
  while (session.cursor().epoch < epochs) {
    for (auto& lane : session.lanes(numbers))
      lane.backward(loss_of(net, points.index_select(0, lane.target)), "net");
    session.checkpoint("diffusion-checkpoints");
    const auto error = session.measure(
        [&](muster::Lane& batch) { batch.report("error", loss_of(average, points.index_select(0, batch.target))); },
        numbers);
    if (!session.members().leads()) continue;
    torch::manual_seed(2);
    const double far = std::get<0>(torch::cdist(draw(average, 400), points).min(1)).mean().item<double>();
    std::printf("epoch %lu: error %.4f, %.4f from the moons\n", session.cursor().epoch, error.mean("error").value(),
                far);
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
