// torch's own LSTM and GRU, with first weights of our own and the scores on top. All positions go through a layer in
// one call; the classifier reads the last one. Layers are called one by one, each a block (model/block.h), so that the
// model can be cut between them.
#include "muster/model/zoo/recurrent.h"

#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/model/block.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

const char* name_of(Cell cell) {
  return cell == Cell::kLstm ? "lstm" : "gru";
}

class Recurrent final : public model::Net {
 public:
  explicit Recurrent(const RecurrentOptions& options) : options_(options) {
    if (options.vocabulary > 0)
      embedding_ = register_module("embedding", torch::nn::Embedding(options.vocabulary, options.embedding));
    const std::int64_t inputs = options.vocabulary > 0 ? options.embedding : options.features;
    // torch warns of dropout between the layers where there is only one.
    const double between = options.depth > 1 ? options.dropout : 0;
    if (options.cell == Cell::kLstm) {
      lstm_ = register_module("rnn", torch::nn::LSTM(torch::nn::LSTMOptions(inputs, options.width)
                                                         .num_layers(options.depth)
                                                         .dropout(between)
                                                         .batch_first(true)));
    } else {
      gru_ = register_module("rnn", torch::nn::GRU(torch::nn::GRUOptions(inputs, options.width)
                                                       .num_layers(options.depth)
                                                       .dropout(between)
                                                       .batch_first(true)));
    }
    fc_ = register_module("fc", torch::nn::Linear(options.width, options.classes));
    initialise();
  }

  torch::Tensor forward(torch::Tensor x) override {
    if (x.dim() != (embedding_ ? 2 : 3) || x.size(1) == 0) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("model {}: takes samples x positions{}; the batch is {}", name_of(options_.cell),
                              embedding_ ? " of tokens" : " x features", fmt::join(x.sizes(), "x")));
    }
    for (std::int64_t layer = 0; layer < options_.depth; ++layer)
      x = run(layer, x);
    return score(x);
  }

  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all;
    for (std::int64_t layer = 0; layer < options_.depth; ++layer) {
      std::vector<std::string> holds;
      for (const std::string& name : names_of(layer))
        holds.push_back("rnn." + name);
      if (layer == 0 && embedding_) holds.emplace_back("embedding");
      all.push_back({fmt::format("rnn.{}", layer), std::move(holds),
                     [this, layer](const torch::Tensor& x) { return run(layer, x); }, cells()});
    }
    all.push_back({"head", {"fc"}, [this](const torch::Tensor& x) { return score(x); }, cells()});
    return all;
  }

 private:
  std::shared_ptr<torch::nn::Module> cells() const {
    return lstm_ ? std::shared_ptr<torch::nn::Module>(lstm_.ptr()) : gru_.ptr();
  }

  // As torch names them.
  static std::vector<std::string> names_of(std::int64_t layer) {
    std::vector<std::string> names;
    for (const char* const name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
      names.push_back(fmt::format("{}_l{}", name, layer));
    return names;
  }

  torch::Tensor dropped(const torch::Tensor& x) const {
    return options_.dropout > 0 ? torch::dropout(x, options_.dropout, is_training()) : x;
  }

  // One layer, with what stands before it: the embedding, or the dropout between layers.
  torch::Tensor run(std::int64_t layer, const torch::Tensor& x) {
    return model::run_block(
        cells(),
        [this, layer](const torch::Tensor& in) {
          if (layer > 0) return compute(layer, dropped(in));
          return compute(layer, embedding_ ? embedding_(in.to(torch::kInt64)) : in);
        },
        x, /*recompute=*/false);
  }

  torch::Tensor compute(std::int64_t layer, const torch::Tensor& x) {
    std::vector<torch::Tensor> weights;
    const auto parameters = cells()->named_parameters(/*recurse=*/false);
    for (const std::string& name : names_of(layer))
      weights.push_back(parameters[name]);
    const torch::Tensor start = torch::zeros({1, x.size(0), options_.width}, x.options());
    if (gru_) return std::get<0>(torch::gru(x, start, weights, true, 1, 0.0, is_training(), false, true));
    return std::get<0>(torch::lstm(x, {start, start}, weights, true, 1, 0.0, is_training(), false, true));
  }

  torch::Tensor score(const torch::Tensor& x) {
    return model::run_block(
        cells(),
        [this](const torch::Tensor& in) { return fc_(dropped(options_.each_position ? in : in.select(1, -1))); }, x,
        /*recompute=*/false);
  }

  void initialise() {
    const torch::NoGradGuard no_grad;
    const std::int64_t width = options_.width;
    for (auto& item : named_parameters()) {
      if (!item.key().starts_with("rnn.")) continue;
      torch::Tensor& value = item.value();
      if (item.key().starts_with("rnn.bias")) {
        value.zero_();
        // Gates stand one below the other: input, forget, cell, output.
        if (lstm_ && item.key().starts_with("rnn.bias_ih")) value.slice(0, width, 2 * width).fill_(1);
        continue;
      }
      for (torch::Tensor gate : value.split(width)) {
        if (item.key().starts_with("rnn.weight_hh"))
          torch::nn::init::orthogonal_(gate);
        else
          torch::nn::init::xavier_uniform_(gate);
      }
    }
  }

  const RecurrentOptions options_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::GRU gru_{nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<model::Net> recurrent(const RecurrentOptions& options) {
  const char* const name = name_of(options.cell);
  require_at_least(name, "vocabulary", options.vocabulary, 0);
  if (options.vocabulary == 0) require_at_least(name, "features", options.features, 1);
  require_at_least(name, "embedding", options.embedding, 1);
  require_at_least(name, "width", options.width, 1);
  require_at_least(name, "depth", options.depth, 1);
  require_at_least(name, "classes", options.classes, 1);
  require_dropout(name, options.dropout);
  return std::make_shared<Recurrent>(options);
}

}  // namespace muster::zoo
