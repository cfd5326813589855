// Your own net in stages: its modules stand in a Sequential, and each worker of a row computes some of them. The
// weights are those that one worker alone finds, bit by bit.
//   ./own_stages                     one worker
//   muster run -n 2 ./own_stages     two stages
//   muster run -n 4 ./own_stages     two rows of two stages
#include <cstdio>

#include "muster/muster.h"

// A block of your own: anything that takes a tensor and gives one. It must not write to what it takes.
struct ResidualImpl : torch::nn::Module {
  explicit ResidualImpl(std::int64_t channels) {
    norm = register_module("norm", torch::nn::BatchNorm2d(channels));
    conv = register_module("conv",
                           torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x + torch::dropout(conv->forward(torch::relu(norm->forward(x))), 0.1, is_training());
  }
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Conv2d conv{nullptr};
};
TORCH_MODULE(Residual);

struct HeadImpl : torch::nn::Module {
  HeadImpl(std::int64_t channels, std::int64_t classes) {
    fc = register_module("fc", torch::nn::Linear(channels, classes));
  }
  torch::Tensor forward(const torch::Tensor& x) { return fc->forward(torch::relu(x).mean({2, 3})); }
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(Head);

int main(int argc, char** argv) {
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  torch::nn::Sequential net({{"stem", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1))},
                             {"first", Residual(16)},
                             {"second", Residual(16)},
                             {"third", Residual(16)},
                             {"head", Head(16, 10)}});

  muster::data::SourceOptions source{.source = "synthetic"};
  source.shape = {1, 12, 12};
  source.samples = 2000;
  const auto dataset = muster::open_source(source).train;

  // Cut so that both stages have about the same work; .cut = {"second"} would say where.
  auto session =
      muster::synchronize_stages(worker, net, muster::Sgd{.lr = 0.05, .momentum = 0.9}, {.batch = 64, .lanes = 8},
                                 {.stages = 2, .sample = torch::zeros({1, 1, 12, 12})});
  for (std::uint64_t step = 25; step <= 100; step += 25) {
    session.train_until(step, dataset, [](const torch::Tensor& answer, const torch::Tensor& target) {
      return torch::nn::functional::cross_entropy(answer, target);
    });
    if (session.session().members().leads())
      std::printf("step %lu: loss %.4f\n", session.session().cursor().step, session.session().last_outcome().loss);
  }
  if (session.session().members().leads()) std::printf("weights %s\n", session.session().weights_hash().c_str());
}
