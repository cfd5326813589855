// Queries, keys and values are one product, and heads are views of it. What a position may not see is masked before the
// softmax; the mask is made for the positions that are there. A team divides attention by heads, the perceptron by its
// hidden units, and token embedding and output layer by words; the rest every member has.
#include "muster/model/zoo/transformer.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/model/block.h"
#include "muster/model/divisible.h"
#include "muster/model/zoo/requirements.h"

namespace muster::zoo {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kPositionDeviation = 0.01;

class Attention final : public torch::nn::Module {
 public:
  explicit Attention(const TransformerOptions& options)
      : c_attn_(register_module("c_attn", torch::nn::Linear(options.width, 3 * options.width))),
        c_proj_(register_module("c_proj", torch::nn::Linear(options.width, options.width))),
        heads_(options.heads),
        depth_(options.width / options.heads),
        dropout_(options.dropout) {}

  void join(const model::TensorTeam& team) { team_ = team; }
  std::vector<model::Split> splits(const std::string& name) const {
    return {{name + ".c_attn.weight", 0, 3, depth_},
            {name + ".c_attn.bias", 0, 3, depth_},
            {name + ".c_proj.weight", 1, 1, depth_}};
  }

  // `hidden` is true where a position (row) must not look (column).
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& hidden) {
    const std::vector<torch::Tensor> parts = team_.size() > 1 ? project_own(x) : project(x);
    const torch::Tensor query = parts[0] * (1 / std::sqrt(static_cast<double>(depth_)));
    torch::Tensor weights = torch::matmul(query, parts[1].transpose(2, 3));
    weights = weights.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(-1);
    if (dropout_ > 0) weights = team_.dropout(weights, dropout_, is_training(), 1, heads_);
    const torch::Tensor seen = torch::matmul(weights, parts[2]).transpose(1, 2).reshape({x.size(0), x.size(1), -1});
    return team_.sum_linear(seen, c_proj_->weight, c_proj_->bias);
  }

 private:
  // Queries, keys and values, each samples x heads x positions x depth.
  std::vector<torch::Tensor> project(const torch::Tensor& x) {
    return c_attn_(x).view({x.size(0), x.size(1), 3, heads_, depth_}).permute({2, 0, 3, 1, 4}).unbind(0);
  }
  // Of this member's heads. The shard of the weight is 3 x their channels x width, a view with gaps.
  std::vector<torch::Tensor> project_own(const torch::Tensor& x) {
    const torch::Tensor in = team_.enter(x);
    const std::vector<torch::Tensor> weights = c_attn_->weight.unbind(0);
    const std::vector<torch::Tensor> biases = c_attn_->bias.unbind(0);
    std::vector<torch::Tensor> parts;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      parts.push_back(torch::nn::functional::linear(in, weights[i], biases[i])
                          .view({x.size(0), x.size(1), -1, depth_})
                          .transpose(1, 2));
    }
    return parts;
  }

  torch::nn::Linear c_attn_;  // queries, keys and values in one
  torch::nn::Linear c_proj_;
  const std::int64_t heads_;
  const std::int64_t depth_;  // of a head
  const double dropout_;
  model::TensorTeam team_;
};

class FeedForward final : public torch::nn::Module {
 public:
  explicit FeedForward(std::int64_t width)
      : c_fc_(register_module("c_fc", torch::nn::Linear(width, 4 * width))),
        c_proj_(register_module("c_proj", torch::nn::Linear(4 * width, width))) {}

  void join(const model::TensorTeam& team) { team_ = team; }
  static std::vector<model::Split> splits(const std::string& name) {
    return {{name + ".c_fc.weight", 0}, {name + ".c_fc.bias", 0}, {name + ".c_proj.weight", 1}};
  }

  torch::Tensor forward(const torch::Tensor& x) {
    return team_.sum_linear(torch::gelu(c_fc_(team_.enter(x)), "tanh"), c_proj_->weight, c_proj_->bias);
  }

 private:
  torch::nn::Linear c_fc_;
  torch::nn::Linear c_proj_;
  model::TensorTeam team_;
};

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

class TransformerBlock final : public torch::nn::Module {
 public:
  explicit TransformerBlock(const TransformerOptions& options)
      : ln_1_(register_module("ln_1", layer_norm(options.width))),
        attn_(register_module("attn", std::make_shared<Attention>(options))),
        ln_2_(register_module("ln_2", layer_norm(options.width))),
        mlp_(register_module("mlp", std::make_shared<FeedForward>(options.width))),
        dropout_(options.dropout) {}

  void join(const model::TensorTeam& team) {
    attn_->join(team);
    mlp_->join(team);
  }
  std::vector<model::Split> splits(const std::string& name) const {
    std::vector<model::Split> all = attn_->splits(name + ".attn");
    for (model::Split& split : mlp_->splits(name + ".mlp"))
      all.push_back(std::move(split));
    return all;
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& hidden) {
    x = x + dropped(attn_->forward(ln_1_(x), hidden));
    return x + dropped(mlp_->forward(ln_2_(x)));
  }

 private:
  torch::Tensor dropped(torch::Tensor x) const { return dropout_ > 0 ? torch::dropout(x, dropout_, is_training()) : x; }

  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<Attention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<FeedForward> mlp_;
  const double dropout_;
};

class Transformer final : public model::Net, public model::Divisible {
 public:
  explicit Transformer(const TransformerOptions& options)
      : wte_(register_module("wte", torch::nn::Embedding(options.vocabulary, options.width))),
        wpe_(register_module("wpe", torch::nn::Embedding(options.context, options.width))),
        h_(register_module("h", torch::nn::ModuleList())),
        ln_f_(register_module("ln_f", layer_norm(options.width))),
        vocabulary_(options.vocabulary),
        context_(options.context),
        each_position_(options.each_position),
        recompute_(options.recompute),
        dropout_(options.dropout) {
    for (std::int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_shared<TransformerBlock>(options));
      h_->push_back(blocks_.back());
    }
    const std::int64_t classes = options.classes == 0 ? options.vocabulary : options.classes;
    if (!options.tied || !each_position_ || classes != options.vocabulary) {
      head_ = register_module(each_position_ ? "lm_head" : "score",
                              torch::nn::Linear(torch::nn::LinearOptions(options.width, classes).bias(false)));
    }
    initialise(options.layers);
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    torch::Tensor x = embed(tokens);
    for (const auto& block : blocks_)
      x = run(block, x);
    return score(x);
  }

  std::vector<model::Piece> pieces() override {
    std::vector<model::Piece> all{{"embed", {"wte", "wpe"}, [this](const torch::Tensor& x) { return embed(x); }, {}}};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const std::string name = fmt::format("h.{}", i);
      all.push_back({name, {name}, [this, i](const torch::Tensor& x) { return run(blocks_[i], x); }, blocks_[i]});
    }
    all.push_back({"head",
                   {"ln_f", head_ ? (each_position_ ? "lm_head" : "score") : "wte"},
                   [this](const torch::Tensor& x) { return score(x); },
                   {}});
    return all;
  }

  std::vector<model::Split> splits() const override {
    std::vector<model::Split> all{{"wte.weight", 0}};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (model::Split& split : blocks_[i]->splits(fmt::format("h.{}", i)))
        all.push_back(std::move(split));
    }
    if (head_ && each_position_) all.push_back({"lm_head.weight", 0});
    return all;
  }
  void join(const model::TensorTeam& team) override {
    team_ = team;
    for (const auto& block : blocks_)
      block->join(team);
  }
  bool divides_answer() const override { return each_position_; }

 private:
  torch::Tensor embed(const torch::Tensor& tokens) {
    if (tokens.dim() != 2 || tokens.size(1) > context_) {
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("model transformer: takes samples x at most {} tokens; the batch "
                              "is {}",
                              context_, fmt::join(tokens.sizes(), "x")));
    }
    const std::int64_t positions = tokens.size(1);
    torch::Tensor x =
        team_.embedding(tokens.to(torch::kInt64), wte_->weight, vocabulary_) + wpe_->weight.slice(0, 0, positions);
    if (dropout_ > 0) x = torch::dropout(x, dropout_, is_training());
    return x;
  }

  torch::Tensor run(const std::shared_ptr<TransformerBlock>& block, const torch::Tensor& x) {
    const std::int64_t positions = x.size(1);
    if (!hidden_.defined() || hidden_.size(0) != positions)
      hidden_ = torch::ones({positions, positions}, torch::kBool).triu(1);
    return model::run_block(
        block, [block, hidden = hidden_](const torch::Tensor& in) { return block->forward(in, hidden); }, x,
        recompute_);
  }

  torch::Tensor score(const torch::Tensor& x) {
    const torch::Tensor seen = each_position_ ? x : x.select(1, -1);
    const torch::Tensor in = each_position_ ? team_.enter(ln_f_(seen)) : ln_f_(seen);
    return torch::nn::functional::linear(in, head_ ? head_->weight : wte_->weight);
  }

  void initialise(std::int64_t layers) {
    const torch::NoGradGuard no_grad;
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(layers));
    for (auto& item : named_parameters()) {
      const std::string& name = item.key();
      if (name.find("ln_") != std::string::npos) continue;  // 1 and 0 already
      if (name.ends_with("bias"))
        item.value().zero_();
      else if (name == "wpe.weight")
        item.value().normal_(0, kPositionDeviation);
      else
        item.value().normal_(0, name.ends_with("c_proj.weight") ? residual : kDeviation);
    }
  }

  torch::nn::Embedding wte_;
  torch::nn::Embedding wpe_;
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_;
  torch::nn::Linear head_{nullptr};
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  torch::Tensor hidden_;  // the mask of the last number of positions
  model::TensorTeam team_;
  const std::int64_t vocabulary_;
  const std::int64_t context_;
  const bool each_position_;
  const bool recompute_;
  const double dropout_;
};

}  // namespace

std::shared_ptr<model::Net> transformer(const TransformerOptions& options) {
  require_at_least("transformer", "layers", options.layers, 1);
  require_at_least("transformer", "heads", options.heads, 1);
  require_at_least("transformer", "width", options.width, 1);
  require_at_least("transformer", "context", options.context, 1);
  require_at_least("transformer", "vocabulary", options.vocabulary, 1);
  require_at_least("transformer", "classes", options.classes, 0);
  require_dropout("transformer", options.dropout);
  if (options.width % options.heads != 0) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("model transformer: width is {}; it must be a multiple of its {} "
                                                      "heads",
                                                      options.width, options.heads));
  }
  return std::make_shared<Transformer>(options);
}

}  // namespace muster::zoo
