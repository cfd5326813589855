// Your own data set and your own LibTorch module: points in a plane, labelled by which of two spirals they lie on.
#include <cmath>
#include <cstdio>
#include <numbers>

#include "muster/muster.h"

// A data set says how many samples it has, what they look like, and how to read one; from any thread, always the same.
class Spirals final : public muster::Dataset {
 public:
  std::uint64_t size() const override { return 4000; }
  const muster::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    const std::int64_t label = static_cast<std::int64_t>(id % 2);
    const double along = static_cast<double>(id / 2) / 2000.0;
    const double angle = 3 * std::numbers::pi * along + std::numbers::pi * static_cast<double>(label);
    features[0] = static_cast<float>((0.1 + along) * std::cos(angle));
    features[1] = static_cast<float>((0.1 + along) * std::sin(angle));
    return label;
  }

 private:
  muster::SampleSpec spec_{.shape = {2}, .classes = 2};
};

// Any module will do; Muster keeps its parameters in memory of its own and leaves the rest to you.
struct SpiralNetImpl : torch::nn::Module {
  SpiralNetImpl() {
    first = register_module("first", torch::nn::Linear(2, 64));
    second = register_module("second", torch::nn::Linear(64, 64));
    last = register_module("last", torch::nn::Linear(64, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return last->forward(torch::tanh(second->forward(torch::tanh(first->forward(x)))));
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, last{nullptr};
};
TORCH_MODULE(SpiralNet);

int main(int argc, char** argv) try {
  auto worker = muster::join(argc, argv);
  auto dataset = std::make_shared<Spirals>();
  torch::manual_seed(1);
  SpiralNet net;
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 0.01}, {.batch = 128});
  if (session.resume("spirals")) std::printf("going on from step %lu\n", session.cursor().step);

  session.meet(dataset);  // a worker that replaces a lost one begins where the others are
  while (session.cursor().epoch < 20) {
    for (auto& lane : session.lanes(dataset)) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
    session.checkpoint("spirals");
  }
  const auto result = muster::evaluate(
      *net, [&](const torch::Tensor& x) { return net->forward(x); }, dataset);
  if (session.members().leads()) std::printf("accuracy %.4f\n", result->metric("accuracy"));
  return result->metric("accuracy") > 0.95 ? 0 : 1;
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
