// A user's program against the installed package: headers, libmuster and LibTorch come with muster::muster alone.
#include "muster/muster.h"

#include <cstdio>
#include <memory>
#include <vector>

// What the pages name beside the one include.
#include "muster/data/augment/augmentation.h"
#include "muster/data/pack.h"
#include "muster/data/tolerant.h"
#include "muster/model/block.h"
#include "muster/model/recompute.h"
#include "muster/model/user_models.h"
#include "muster/model/zoo/fbnet.h"
#include "muster/model/zoo/recurrent.h"
#include "muster/model/zoo/wide_deep.h"
#include "muster/model/zoo/wide_resnet.h"
#include "muster/strategies/parameter_server/server.h"

namespace {

// A layer computed again in backward has the gradients of one that kept everything.
bool recomputes() {
  torch::nn::Linear layer(4, 4);
  const auto forward = [&](const torch::Tensor& x) { return torch::tanh(layer->forward(x)); };
  const torch::Tensor x = torch::ones({2, 4}, torch::requires_grad());
  forward(x).sum().backward();
  const torch::Tensor expected = x.grad().clone();
  x.mutable_grad().zero_();
  muster::model::recomputed(layer.ptr(), forward, x).sum().backward();
  if (!torch::equal(x.grad(), expected)) return false;
  x.mutable_grad().zero_();
  muster::model::run_block(layer.ptr(), forward, x, /*recompute=*/true).sum().backward();
  return torch::equal(x.grad(), expected);
}

// Those of the zoo that muster.h does not bring.
bool zoo_is_there() {
  torch::NoGradGuard no_gradients;
  const torch::Tensor picture = torch::zeros({2, 3, 32, 32});
  const torch::Tensor tokens = torch::zeros({2, 5}, torch::kInt64);
  return muster::zoo::wide_resnet({.depth = 10, .factor = 1})->forward(picture).size(1) == 10 &&
         muster::zoo::fbnet({.classes = 7})->forward(picture).size(1) == 7 &&
         muster::zoo::recurrent({.vocabulary = 9, .width = 8, .depth = 1, .classes = 9})->forward(tokens).size(2) ==
             9 &&
         muster::zoo::wide_deep({.columns = {1, 3}, .hidden = {4}})->forward(torch::zeros({2, 4})).size(1) == 2;
}

}  // namespace

int main(int argc, char** argv) {
  // The loop of the README, on data that need no file: it must learn, and an error must cross the library's boundary.
  auto worker = muster::join(argc, argv);
  auto data = muster::open_source({.source = "synthetic", .shape = {16}, .classes = 3, .samples = 512});
  torch::manual_seed(1);
  auto net = muster::zoo::mlp({.inputs = 16, .hidden = {32}, .classes = 3});
  auto session = muster::synchronize(worker, net, muster::Adam{.lr = 0.01}, {.batch = 64});
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& lane : session.lanes(data.train)) {
      lane.backward(torch::nn::functional::cross_entropy(net->forward(lane.data), lane.target));
    }
  }
  if (session.cursor().step != 40) return 1;
  const auto result = muster::evaluate(
      *net, [&](const torch::Tensor& x) { return net->forward(x); }, data.train);
  if (result->metric("accuracy") < 0.9) return 2;
  // Strategies by type, and servers without a session.
  auto other = muster::zoo::mlp({.inputs = 16, .hidden = {32}, .classes = 3});
  const muster::SessionOptions local{.batch = 64, .strategy = muster::LocalSgd{.period = 4, .outer_momentum = 0.5}};
  auto averaged = muster::synchronize(worker, other, muster::Sgd{.lr = 0.1}, local);
  averaged.step(data.train, [&](muster::Lane& lane) {
    lane.backward(torch::nn::functional::cross_entropy(other->forward(lane.data), lane.target));
  });
  muster::ServerPlan plan;
  plan.layout = muster::model::FlatLayout({{"weights", {4}}});
  plan.separate_tensors = true;
  const muster::LocalServers servers(plan);
  muster::ParameterClient client({.number = 0, .store = servers.store()});
  const std::vector<float> gradient(4, 1.0F);
  std::vector<float> weights(4);
  client.wait(client.push_pull("weights", gradient, 0.5, weights));
  if (weights[3] != -0.5F) return 5;
  if (!recomputes()) return 6;
  if (!zoo_is_there()) return 7;
  const muster::data::Tolerant tolerant(data.train,
                                        std::make_shared<muster::data::BadSamples>(muster::data::BadSampleOptions{}));
  if (tolerant.size() != data.train->size()) return 8;
  try {
    muster::open_source({.source = "synthetik"});
    return 3;
  } catch (const muster::Error& error) {
    if (error.kind() != muster::ErrorKind::kInvalidInput) return 4;
  }
  std::puts("the consumer works");
  return 0;
}
