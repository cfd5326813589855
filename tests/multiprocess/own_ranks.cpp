// A user's program whose workers are a fixed group, for hosts_run_test.cpp. Without a session every worker has a
// gradient by its rank, and the first one prints what all make of them; "session" trains an epoch from the newest
// checkpoint.
#include <cstdio>
#include <string_view>

#include "muster/muster.h"

namespace {

class Line final : public muster::Dataset {
 public:
  std::uint64_t size() const override { return 100; }
  const muster::SampleSpec& spec() const override { return spec_; }
  std::int64_t read(std::uint64_t id, std::span<float> features) const override {
    features[0] = static_cast<float>(id) / 50 - 1;
    return features[0] < 0 ? 0 : 1;
  }

 private:
  muster::SampleSpec spec_{.shape = {1}, .classes = 2};
};

void train(const muster::Worker& worker) {
  const auto data = std::make_shared<Line>();
  torch::nn::Linear net(1, 2);
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.1, .momentum = 0.9},
                                     {.batch = 16, .lanes = 2, .strategy = muster::AllReduce{}});
  const bool resumed = session.resume("line");
  session.meet(data);
  for (auto& lane : session.lanes(data))
    lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
  session.checkpoint("line");
  if (session.members().leads())
    std::printf("resumed %d, step %lu: %s\n", resumed, session.cursor().step, session.weights_hash().c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  const auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  if (argc > 1 && std::string_view(argv[1]) == "session") {
    train(worker);
    return 0;
  }
  torch::nn::Linear net(3, 2);
  const torch::Tensor input = torch::full({1, 3}, 1.0 / (3 + worker.rank()));
  net->forward(input).sum().backward();
  worker.all_reduce_gradients(*net);
  if (!worker.is_first()) return 0;
  std::printf("%d workers, %s %s: %a\n", worker.size(), argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "",
              static_cast<double>(net->weight.grad()[0][0].item<float>()));
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
