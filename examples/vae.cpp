// A variational autoencoder of clothes: two terms of a loss, each reported under its own name, and a test set that all
// workers measure together.
//   ./build/release/examples/vae [STEPS]
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

struct VaeImpl : torch::nn::Module {
  VaeImpl() {
    encode = register_module("encode", torch::nn::Linear(784, 256));
    spread = register_module("spread", torch::nn::Linear(256, 32));  // means and log variances of 16 numbers
    decode = register_module("decode", torch::nn::Linear(16, 256));
    paint = register_module("paint", torch::nn::Linear(256, 784));
  }
  struct Terms {
    torch::Tensor reconstruction, kl;  // means over the samples
  };
  Terms forward(const torch::Tensor& pictures) {
    const torch::Tensor x = pictures.flatten(1);
    const auto both = spread->forward(torch::relu(encode->forward(x))).chunk(2, 1);
    const torch::Tensor code = both[0] + torch::randn_like(both[0]) * (0.5 * both[1]).exp();
    const torch::Tensor painted = paint->forward(torch::relu(decode->forward(code)));
    return {(painted - x).pow(2).sum(1).mean(), -0.5 * (1 + both[1] - both[0].pow(2) - both[1].exp()).sum(1).mean()};
  }
  torch::nn::Linear encode{nullptr}, spread{nullptr}, decode{nullptr}, paint{nullptr};
};
TORCH_MODULE(Vae);

int main(int argc, char** argv) try {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  auto data = muster::open_source({.source = "fashion-mnist"});
  Vae net;
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 1e-3}, {.batch = 128, .lanes = 4});
  session.resume("vae");

  session.meet(data.train);
  while (session.cursor().step < steps) {
    const std::uint64_t next = std::min((session.cursor().step / 100 + 1) * 100, steps);
    session.train_until(next, data.train, [&](muster::Lane& lane) {
      const auto terms = net->forward(lane.data);
      lane.report("reconstruction", terms.reconstruction);
      lane.report("kl", terms.kl);
      lane.backward(terms.reconstruction + terms.kl);
    });
    // All workers share the test set, and get the same means.
    const auto test = session.measure(
        [&](muster::Lane& batch) {
          const auto terms = net->forward(batch.data);
          batch.report("reconstruction", terms.reconstruction);
          batch.report("kl", terms.kl);
        },
        data.test);
    session.checkpoint("vae");
    if (!session.members().leads()) continue;
    const auto& last = session.last_outcome();
    std::printf("step %lu: training %.3f + %.3f, test %.6f + %.6f\n", session.cursor().step,
                last.figure("reconstruction").value_or(0), last.figure("kl").value_or(0),
                test.mean("reconstruction").value(), test.mean("kl").value());
    std::fflush(stdout);
  }
  session.save("vae.safetensors");
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
