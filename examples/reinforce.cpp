// REINFORCE (Williams 1992) on carts with poles: samples are games that are played by the policy while it trains. A
// sample is a number and no more; what a lane draws depends on step and lane alone, so a game is the same whoever plays
// it.
//   ./build/release/examples/reinforce [STEPS]
#include <cstdio>
#include <cstdlib>

#include "cart_pole.h"
#include "muster/muster.h"

constexpr std::int64_t kLongest = 120;  // pushes of a game

struct Games {
  torch::Tensor chances;  // pushes x games: log probability of what was done
  torch::Tensor alive;    // pushes x games: 1 until the pole has fallen
};

Games play(torch::nn::Sequential& policy, std::int64_t games) {
  std::vector<torch::Tensor> chances, alive;
  torch::Tensor state = new_carts(games);
  torch::Tensor standing = torch::ones({games});
  for (std::int64_t push_number = 0; push_number < kLongest && standing.any().item<bool>(); ++push_number) {
    const torch::Tensor log_chances = torch::log_softmax(policy->forward(state), 1);
    const torch::Tensor action = torch::multinomial(log_chances.detach().exp(), 1);
    chances.push_back(log_chances.gather(1, action).squeeze(1));
    alive.push_back(standing);
    state = push(state, action.squeeze(1));
    standing = standing * fallen(state).logical_not();
  }
  return {torch::stack(chances), torch::stack(alive)};
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 80;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  torch::nn::Sequential policy(torch::nn::Linear(4, 64), torch::nn::Tanh(), torch::nn::Linear(64, 2));
  auto session = muster::synchronize(worker, policy, muster::Adam{.lr = 0.02}, {.batch = 32, .lanes = 2});
  const auto games = muster::numbered(32 * 100);  // an epoch of 100 steps
  session.resume("reinforce");

  session.meet(games);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 10 + 1) * 10, steps);
    session.train_until(next, games, [&](muster::Lane& lane) {
      const Games played = play(policy, static_cast<std::int64_t>(lane.ids.size()));
      // What came of a push: how long the pole stood from there on, as far as that is more than in other games.
      const torch::Tensor rest = played.alive.flip(0).cumsum(0).flip(0);
      const torch::Tensor mean = (rest * played.alive).sum(1, true) / played.alive.sum(1, true).clamp_min(1);
      const torch::Tensor gain = (rest - mean) * played.alive / 10;
      lane.report("pushes", played.alive.sum(0).mean());
      lane.backward(-(played.chances * gain).sum(0).mean());
    });
    session.checkpoint("reinforce");
    if (!session.members().leads()) continue;
    std::printf("step %lu: %.2f pushes\n", session.cursor().step, session.last_outcome().figure("pushes").value_or(0));
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
