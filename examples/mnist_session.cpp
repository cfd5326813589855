// mnist.cpp with a session: its net and its torch::data data sets as they are, the same bits for any number of workers.
//   ./mnist_session FOLDER [EPOCHS]      FOLDER has train-images-idx3-ubyte and the other three files, unpacked
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 5).stride(2)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 5).stride(2)));
    fc1 = register_module("fc1", torch::nn::Linear(512, 64));
    fc2 = register_module("fc2", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv2->forward(torch::relu(conv1->forward(x))));
    return fc2->forward(torch::relu(fc1->forward(x.flatten(1))));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};
TORCH_MODULE(Net);

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : "data";
  const std::uint64_t epochs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);

  Net net;
  auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.05, .momentum = 0.9}, {.batch = 64});
  auto train = torch::data::datasets::MNIST(folder).map(torch::data::transforms::Stack<>());
  auto test = torch::data::datasets::MNIST(folder, torch::data::datasets::MNIST::Mode::kTest)
                  .map(torch::data::transforms::Stack<>());
  auto batches = muster::numbered(train.size().value());
  auto test_batches = muster::numbered(test.size().value());

  session.resume("mnist");
  session.meet(batches);
  while (session.cursor().epoch < epochs) {
    for (auto& lane : session.lanes(batches)) {
      auto batch = lane.batch_of(train);
      lane.backward(torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target));
    }
    const auto measured = session.measure(
        [&](muster::Lane& lane) {
          auto batch = lane.batch_of(test);
          lane.report("right", net->forward(batch.data).argmax(1).eq(batch.target).to(torch::kFloat32).mean());
        },
        test_batches);
    if (session.members().leads())
      std::printf("epoch %lu: %.4f right\n", session.cursor().epoch, *measured.mean("right"));
    session.checkpoint("mnist");
    session.save("mnist.safetensors");
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
