// An ordinary LibTorch program: its own net, DataLoader and optimizer, pictures in the format of MNIST.
//   ./mnist FOLDER [EPOCHS]      FOLDER has train-images-idx3-ubyte and the other three files, unpacked
#include <cstdio>
#include <cstdlib>

#include <torch/torch.h>

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

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
  torch::set_num_threads(1);
  torch::manual_seed(1);

  Net net;
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto train = torch::data::datasets::MNIST(folder).map(torch::data::transforms::Stack<>());
  auto test = torch::data::datasets::MNIST(folder, torch::data::datasets::MNIST::Mode::kTest)
                  .map(torch::data::transforms::Stack<>());
  auto sampler = torch::data::samplers::RandomSampler(train.size().value());
  auto batches = torch::data::make_data_loader(std::move(train), std::move(sampler), 64);
  auto test_batches = torch::data::make_data_loader(std::move(test), 500);

  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto& batch : *batches) {
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target).backward();
      optimizer.step();
    }
    const torch::NoGradGuard no_grad;
    std::int64_t correct = 0;
    for (auto& batch : *test_batches)
      correct += net->forward(batch.data).argmax(1).eq(batch.target).sum().item<std::int64_t>();
    std::printf("epoch %d: %ld of 10000 right\n", epoch + 1, correct);
    torch::save(net, "mnist.pt");
  }
}
