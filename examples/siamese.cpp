// A siamese net (Hadsell, Chopra, LeCun 2006): a sample is a pair of pictures and whether they are of the same class,
// put together from tensors that the program holds. The session says which numbers; what stands behind them is the
// program's.
//   ./build/release/examples/siamese [STEPS]
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

struct Pictures {
  torch::Tensor data, label;
};

Pictures first_of(const muster::Dataset& dataset, std::int64_t count) {
  Pictures made{torch::empty({count, 784}), torch::empty({count}, torch::kInt64)};
  for (std::int64_t i = 0; i < count; ++i)
    made.label[i] = dataset.read(static_cast<std::uint64_t>(i), {made.data.data_ptr<float>() + i * 784, 784});
  return made;
}

struct Pairs {
  torch::Tensor left, right, same;
};

// Every second pair is of one class, as far as a few draws find it.
Pairs pairs_of(const Pictures& all, const torch::Tensor& numbers) {
  torch::Tensor others = torch::randint(all.label.size(0), {numbers.size(0)});
  const torch::Tensor wanted = torch::rand({numbers.size(0)}) < 0.5;
  for (int draw = 0; draw < 12; ++draw) {
    const torch::Tensor same = all.label.index_select(0, numbers).eq(all.label.index_select(0, others));
    others = torch::where(same.eq(wanted), others, torch::randint_like(others, all.label.size(0)));
  }
  return {all.data.index_select(0, numbers), all.data.index_select(0, others),
          all.label.index_select(0, numbers).eq(all.label.index_select(0, others)).to(torch::kFloat32)};
}

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 600;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  const auto data = muster::open_source({.source = "fashion-mnist"});
  const Pictures train = first_of(*data.train, 4000), test = first_of(*data.test, 1000);
  torch::nn::Sequential net(torch::nn::Linear(784, 128), torch::nn::ReLU(), torch::nn::Linear(128, 16));
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 1e-3}, {.batch = 64, .lanes = 2});
  const auto numbers = muster::numbered(4000), test_numbers = muster::numbered(1000);
  const auto distance = [&](const Pairs& pairs) {
    return (net->forward(pairs.left) - net->forward(pairs.right)).pow(2).sum(1).add(1e-6).sqrt();
  };

  session.resume("siamese");
  session.meet(numbers);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 100 + 1) * 100, steps);
    session.train_until(next, numbers, [&](muster::Lane& lane) {
      const Pairs pairs = pairs_of(train, lane.target);  // of numbered data the targets are the numbers
      const torch::Tensor apart = distance(pairs);
      lane.backward((pairs.same * apart.pow(2) + (1 - pairs.same) * (2 - apart).clamp_min(0).pow(2)).mean());
    });
    const auto right = session.measure(
        [&](muster::Lane& batch) {
          const Pairs pairs = pairs_of(test, batch.target);
          batch.report("right", distance(pairs).lt(1).eq(pairs.same.gt(0.5)).to(torch::kFloat32).mean());
        },
        test_numbers);
    session.checkpoint("siamese");
    if (session.members().leads())
      std::printf("step %lu: %.4f of the test pairs right\n", session.cursor().step, right.mean("right").value());
    std::fflush(stdout);
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
