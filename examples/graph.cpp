// A graph net (GraphSAGE: Hamilton, Ying, Leskovec 2017) that says to which community a node belongs, by Lion (Chen et
// al. 2023), an optimizer of the program's own, without weight decay for some tensors.
//   ./build/release/examples/graph [EPOCHS]
#include <cstdio>
#include <cstdlib>

#include "muster/muster.h"

constexpr std::int64_t kNodes = 1200, kTrain = 1000, kFeatures = 16, kHidden = 32, kClasses = 5;

struct Graph {
  torch::Tensor features, labels, neighbours;  // of a node: 8 numbers
};

Graph make_graph() {
  Graph g{{}, torch::arange(kNodes).remainder(kClasses), {}};
  g.features = torch::randn({kNodes, kFeatures}) + 0.6 * torch::one_hot(g.labels, kFeatures).to(torch::kFloat32);
  const auto same = (torch::randint(kNodes / kClasses, {kNodes, 8}) * kClasses) + g.labels.unsqueeze(1);
  const auto any = torch::randint(kNodes, {kNodes, 8});
  g.neighbours = torch::where(torch::rand({kNodes, 8}) < 0.7, same, any);
  return g;
}

struct SageImpl : torch::nn::Module {
  SageImpl() {
    first = register_module("first", torch::nn::Linear(2 * kFeatures, kHidden));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kHidden})));
    second = register_module("second", torch::nn::Linear(2 * kHidden, kClasses));
  }
  torch::Tensor hidden(const Graph& g, const torch::Tensor& nodes) {
    const auto mean =
        g.features.index_select(0, g.neighbours.index_select(0, nodes).flatten()).view({-1, 8, kFeatures}).mean(1);
    return torch::relu(norm->forward(first->forward(torch::cat({g.features.index_select(0, nodes), mean}, 1))));
  }
  torch::Tensor forward(const Graph& g, const torch::Tensor& nodes) {
    const auto theirs = hidden(g, g.neighbours.index_select(0, nodes).flatten()).view({nodes.size(0), 8, -1}).mean(1);
    return second->forward(torch::dropout(torch::cat({hidden(g, nodes), theirs}, 1), 0.2, is_training()));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Sage);

torch::Tensor right_of(const torch::Tensor& scores, const Graph& graph, const torch::Tensor& nodes) {
  return scores.argmax(1).eq(graph.labels.index_select(0, nodes)).to(torch::kFloat32).mean();
}

muster::OwnOptimizer lion(double lr, double decay) {
  return {.name = "lion",
          .lr = lr,
          .weight_decay = decay,
          .slots = {"momentum"},
          .update = [](const auto& in, const auto& step, const auto& out) {
            const auto lr = static_cast<float>(step.lr), decay = static_cast<float>(step.weight_decay);
            for (std::size_t i = 0; i < in.parameters.size(); ++i) {
              const float g = in.gradient_scale * in.gradient[i];
              const float mixed = 0.9F * in.state[0][i] + 0.1F * g;
              const auto sign = static_cast<float>((mixed > 0) - (mixed < 0));
              out.parameters[i] = in.parameters[i] - lr * (sign + decay * in.parameters[i]);
              out.state[0][i] = 0.99F * in.state[0][i] + 0.01F * g;
            }
          }};
}

int main(int argc, char** argv) try {
  const std::uint64_t epochs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20;
  auto worker = muster::join(argc, argv);
  torch::manual_seed(1);
  const Graph graph = make_graph();
  Sage net;
  muster::SessionOptions options{.batch = 64, .lanes = 4, .clip_norm = 1.0};
  options.schedule = {.kind = muster::Schedule::Kind::kCosine, .warmup_steps = 20, .total_steps = epochs * 16};
  options.tuning.decay_factors = {{"*.bias", 0}, {"norm.*", 0}};
  auto session = muster::synchronize(worker, net, lion(3e-3, 0.1), options);
  session.resume("graph");
  const auto train = muster::numbered(kTrain), test = muster::numbered(kNodes - kTrain);
  session.meet(train);
  while (session.cursor().epoch < epochs) {
    for (auto& lane : session.lanes(train)) {
      const auto scores = net->forward(graph, lane.target);
      lane.report("right", right_of(scores, graph, lane.target));
      lane.backward(torch::nn::functional::cross_entropy(scores, graph.labels.index_select(0, lane.target)));
    }
    session.checkpoint("graph");
    const auto right = session.measure(
        [&](muster::Lane& batch) {
          const auto nodes = batch.target + kTrain;
          batch.report("right", right_of(net->forward(graph, nodes), graph, nodes));
        },
        test);
    if (session.members().leads())
      std::printf("epoch %lu: test %.4f, training %.4f\n", session.cursor().epoch, *right.mean("right"),
                  session.last_outcome().figure("right").value_or(0));
  }
  if (session.members().leads()) std::printf("weights %s\n", session.weights_hash().c_str());
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
