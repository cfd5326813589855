// A wide and deep net whose embeddings live on parameter servers, and workers, each at its own speed, on a table with
// categorical columns (made up here: clicks by user, product and shop). The same net with all its weights in one
// process is trained for comparison; the servers must do as well.
//
//   muster run -n 2 --servers 2 ./wide_deep_servers      alone its servers are threads of the program
#include <muster/muster.h>

#include <cstdio>

#include "clicks.h"

using muster::ParameterClient;

double train_alone(const Table& train, const Table& test) {
  torch::nn::Sequential deep = make_deep();
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(kKeys, kWidth)._weight(torch::rand({kKeys, kWidth}) / 10));
  torch::optim::Adam deep_optimizer(deep->parameters(), 1e-3);
  torch::optim::Adagrad table_optimizer(table->parameters(), 0.1);
  for (std::int64_t number = 0; number < kBatches; ++number) {
    deep->zero_grad();
    table->zero_grad();
    const torch::Tensor answer = forward(deep, table->forward(batch(train.keys, number)));
    torch::binary_cross_entropy_with_logits(answer, batch(train.label, number)).backward();
    deep_optimizer.step();
    table_optimizer.step();
  }
  return accuracy(deep, table->forward(test.keys), test.label);
}

std::span<float> floats(const torch::Tensor& t) {
  return {t.data_ptr<float>(), static_cast<std::size_t>(t.numel())};
}
std::span<const std::int64_t> keys_of(const torch::Tensor& t) {
  return {t.data_ptr<std::int64_t>(), static_cast<std::size_t>(t.numel())};
}

// The deep part's weights come by name, the rows that the samples need by key.
torch::Tensor pull(ParameterClient& client, torch::nn::Sequential& deep, const torch::Tensor& keys) {
  for (const auto& item : deep->named_parameters())
    client.wait(client.pull(item.key(), floats(item.value())));
  const torch::Tensor rows = torch::empty({keys.size(0), 3, kWidth});
  client.wait(client.pull_rows("rows", keys_of(keys), floats(rows)));
  return rows;
}

void work(ParameterClient& client, const Table& train, const muster::Worker& worker) {
  torch::nn::Sequential deep = make_deep();
  for (std::int64_t number = worker.rank(); number < kBatches; number += worker.size()) {
    const torch::Tensor keys = batch(train.keys, number).contiguous();
    const torch::Tensor rows = pull(client, deep, keys).requires_grad_();
    deep->zero_grad();
    torch::binary_cross_entropy_with_logits(forward(deep, rows), batch(train.label, number)).backward();
    for (const auto& item : deep->named_parameters())
      client.wait(client.push(item.key(), floats(item.value().grad()), 1e-3));
    client.wait(client.push_rows("rows", keys_of(keys), floats(rows.grad()), 0.1));
  }
}

int main(int argc, char** argv) try {
  const auto worker = muster::join(argc, argv);
  torch::manual_seed(3);
  const Table train = make_table(kTrain), test = make_table(kTest);
  torch::nn::Sequential deep = make_deep();
  muster::ServerPlan plan;
  std::vector<muster::model::TensorInfo> tensors;
  for (const auto& item : deep->named_parameters())
    tensors.push_back({item.key(), item.value().sizes().vec()});
  plan.layout = muster::FlatLayout(tensors);
  plan.optimizer = muster::Adam{};
  plan.tables = {
      {{.name = "rows", .width = kWidth, .optimizer = muster::SparseOptimizer::kAdaGrad, .init_scale = 0.05}, 4}};
  muster::Servers servers(worker, plan, [&](const std::string& name, std::span<float> values) {
    std::ranges::copy(floats(deep->named_parameters()[name]), values.begin());
  });
  work(servers.client(), train, worker);
  servers.barrier();  // all have pushed
  if (!worker.is_first()) return 0;
  const double served = accuracy(deep, pull(servers.client(), deep, test.keys), test.label);
  const double alone = train_alone(train, test);
  std::printf("accuracy on %ld samples: %.4f by one process, %.4f by servers and %d workers\n", kTest, alone, served,
              worker.size());
  return served > alone - 0.015 ? 0 : 1;
} catch (const muster::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
