// Deep Q-learning (Mnih et al. 2015) on carts with poles. The replay memory and the games in work are buffers of a
// module, so they are part of the committed state: in checkpoints, with a worker that comes later, the same for any
// number of them. The target network is a part without an optimizer, copied after every 25th step.
//   ./build/release/examples/dqn [STEPS]
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cart_pole.h"
#include "muster/muster.h"

constexpr std::int64_t kGames = 8, kPlaces = 8192;
// Rewards are scaled so that values stay below 1, where this loss is a square. With 1 for every push errors are large,
// and for those the loss counts heads: the one fall in ten pushes is outvoted, and values grow for ever.
constexpr double kPatience = 0.98, kReward = 1 - kPatience;

struct MemoryImpl : torch::nn::Module {
  MemoryImpl() {
    before = register_buffer("before", torch::zeros({kPlaces, 4}));
    after = register_buffer("after", torch::zeros({kPlaces, 4}));
    action = register_buffer("action", torch::zeros({kPlaces}, torch::kInt64));
    lost = register_buffer("lost", torch::zeros({kPlaces}));
    count = register_buffer("count", torch::zeros({1}, torch::kInt64));
    carts = register_buffer("carts", new_carts(kGames));
    pushes = register_buffer("pushes", torch::zeros({kGames}));   // of the games in work
    length = register_buffer("length", torch::full({1}, 20.0F));  // of games, a moving average
  }
  std::int64_t filled() const { return std::min(count.item<std::int64_t>(), kPlaces); }

  // One push in every game; some at random.
  void play(torch::nn::Sequential& q, double random) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor best = q->forward(carts).argmax(1);
    const torch::Tensor done = torch::where(torch::rand({kGames}) < random, torch::randint(2, {kGames}), best);
    const torch::Tensor next = push(carts, done);
    const torch::Tensor over = fallen(next).logical_or(pushes.ge(199));
    const std::int64_t at = count.item<std::int64_t>() % kPlaces;
    before.narrow(0, at, kGames).copy_(carts);
    after.narrow(0, at, kGames).copy_(next);
    action.narrow(0, at, kGames).copy_(done);
    lost.narrow(0, at, kGames).copy_(fallen(next));
    count.add_(kGames);
    pushes.add_(1);
    const double ended = over.sum().item<double>();
    if (ended > 0) length.lerp_((pushes * over).sum().view({1}) / ended, 0.1);
    pushes.mul_(over.logical_not());
    carts.copy_(torch::where(over.unsqueeze(1), new_carts(kGames), next));
  }
  torch::Tensor before, after, action, lost, count, carts, pushes, length;
};
TORCH_MODULE(Memory);

torch::nn::Sequential make_q() {
  return torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::ReLU(), torch::nn::Linear(64, 2));
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  torch::nn::Sequential q = make_q(), target = make_q();
  Memory memory;
  for (int i = 0; i < 32; ++i)
    memory->play(q, 1);  // something to begin with

  muster::SessionOptions options{.batch = 64, .lanes = 2};
  options.after_commit = [&](const muster::Cursor& after) {
    memory->play(q, 0.05 + 0.95 * std::exp(-static_cast<double>(after.step) / 300));
    if (after.step % 25 != 0) return;
    for (std::size_t i = 0; i < q->parameters().size(); ++i)
      target->parameters()[i].copy_(q->parameters()[i]);
  };
  auto session = muster::synchronize(
      worker, {{"q", q, muster::Adam{.lr = 1e-3}}, {"target", target}, {"memory", memory}}, options);
  session.resume("dqn-checkpoints");
  const auto draws = muster::numbered(64 * 100);

  session.meet(draws);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 100 + 1) * 100, steps);
    session.train_until(next, draws, [&](muster::Lane& lane) {
      const torch::Tensor chosen = torch::randint(memory->filled(), {static_cast<std::int64_t>(lane.ids.size())});
      const auto of = [&](const torch::Tensor& all) { return all.index_select(0, chosen); };
      const torch::Tensor future = std::get<0>(target->forward(of(memory->after)).max(1)) * (1 - of(memory->lost));
      const torch::Tensor value = q->forward(of(memory->before)).gather(1, of(memory->action).unsqueeze(1)).squeeze(1);
      lane.report("value", value.mean());
      lane.backward(torch::smooth_l1_loss(value, (kReward + kPatience * future).detach()));
    });
    session.checkpoint("dqn-checkpoints");
    if (!session.members().leads()) continue;
    std::printf("step %lu: games of %.1f pushes\n", session.cursor().step, memory->length.item<double>());
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
