// The transformer against its formulas, position by position with plain sums: no masks, no batches of heads.
#include "muster/model/zoo/transformer.h"

#include <cmath>

#include <gmock/gmock.h>

#include "muster/base/error.h"
#include "net_properties.h"

namespace muster::zoo {
namespace {

using ::testing::HasSubstr;

const TransformerOptions kSmall{.layers = 2, .width = 12, .heads = 3, .context = 7, .vocabulary = 11};

torch::Tensor tokens(std::int64_t samples, std::int64_t positions, std::int64_t vocabulary) {
  return torch::randint(vocabulary, {samples, positions}, torch::kInt64);
}

// Counted by hand from the architecture: embeddings; for each block two norms, queries, keys, values and projection,
// and the two layers of the perceptron; the last norm.
std::int64_t closed_formula(const TransformerOptions& o) {
  const std::int64_t w = o.width;
  const std::int64_t block = 12 * w * w + 13 * w;
  return o.vocabulary * w * (o.tied ? 1 : 2) + o.context * w + o.layers * block + 2 * w;
}

TEST(Transformer, HasTheNumberOfParametersOfTheFormula) {
  for (TransformerOptions options : {kSmall, TransformerOptions{}}) {
    EXPECT_EQ(parameter_count(*transformer(options)), closed_formula(options));
    options.tied = false;
    EXPECT_EQ(parameter_count(*transformer(options)), closed_formula(options));
  }
  // GPT-2 small has 124,439,808 parameters.
  EXPECT_EQ(closed_formula({.layers = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257}),
            124'439'808);
}

// The same network from its parameters, position by position with plain sums: no matrix of masks, no batches of heads.
torch::Tensor by_hand(const model::Net& net, const TransformerOptions& options, const torch::Tensor& sentence) {
  const auto all = net.named_parameters();
  const auto p = [&](const std::string& name) { return all[name].detach().to(torch::kFloat64); };
  const auto norm = [&](const torch::Tensor& x, const std::string& name) {
    const auto centred = x - x.mean();
    return centred / (centred.pow(2).mean() + 1e-5).sqrt() * p(name + ".weight") + p(name + ".bias");
  };
  const auto linear = [&](const torch::Tensor& x, const std::string& name) {
    return p(name + ".weight").mv(x) + p(name + ".bias");
  };
  const auto gelu = [](const torch::Tensor& x) {
    return 0.5 * x * (1 + torch::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))));
  };
  const std::int64_t depth = options.width / options.heads;
  std::vector<torch::Tensor> x;
  for (std::int64_t t = 0; t < sentence.size(0); ++t)
    x.push_back(p("wte.weight")[sentence[t].item<std::int64_t>()] + p("wpe.weight")[t]);
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string h = "h." + std::to_string(layer);
    std::vector<torch::Tensor> qkv;
    for (const auto& row : x)
      qkv.push_back(linear(norm(row, h + ".ln_1"), h + ".attn.c_attn"));
    for (std::size_t t = 0; t < x.size(); ++t) {
      std::vector<torch::Tensor> heads;
      for (std::int64_t head = 0; head < options.heads; ++head) {
        const auto part = [&](std::size_t at, std::int64_t which) {
          const std::int64_t begin = which * options.width + head * depth;
          return qkv[at].slice(0, begin, begin + depth);
        };
        double sum = 0;
        torch::Tensor mixed = torch::zeros({depth}, torch::kFloat64);
        for (std::size_t past = 0; past <= t; ++past) {
          const double weight =
              std::exp(part(t, 0).dot(part(past, 1)).item<double>() / std::sqrt(static_cast<double>(depth)));
          sum += weight;
          mixed += weight * part(past, 2);
        }
        heads.push_back(mixed / sum);
      }
      x[t] = x[t] + linear(torch::cat(heads), h + ".attn.c_proj");
    }
    for (auto& row : x)
      row = row + linear(gelu(linear(norm(row, h + ".ln_2"), h + ".mlp.c_fc")), h + ".mlp.c_proj");
  }
  for (auto& row : x)
    row = p(options.tied ? "wte.weight" : "lm_head.weight").mv(norm(row, "ln_f"));
  return torch::stack(x);
}

class TransformerHeads : public ::testing::TestWithParam<bool> {};

TEST_P(TransformerHeads, GivesWhatTheFormulasGive) {
  torch::manual_seed(3);
  TransformerOptions options = kSmall;
  options.tied = GetParam();
  const auto net = transformer(options);
  {
    // First weights are so small that mistakes would not show, and biases are 0.
    const torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters())
      parameter.normal_(0, 0.5);
  }
  for (const std::int64_t positions : {std::int64_t{1}, std::int64_t{5}, options.context}) {
    const auto sentence = tokens(2, positions, options.vocabulary);
    const auto scores = net->forward(sentence);
    ASSERT_EQ(scores.sizes(), (torch::IntArrayRef{2, positions, options.vocabulary}));
    for (std::int64_t sample = 0; sample < 2; ++sample) {
      const auto expected = by_hand(*net, options, sentence[sample]);
      EXPECT_TRUE(torch::allclose(scores[sample].to(torch::kFloat64), expected, 1e-4, 1e-4))
          << (scores[sample] - expected).abs().max();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tied, TransformerHeads, ::testing::Bool());

TEST(Transformer, LaterTokensDoNotChangeEarlierScores) {
  const auto net = transformer(kSmall);
  const auto sentence = tokens(3, 7, 11);
  const auto before = net->forward(sentence);
  for (std::int64_t position = 1; position < 7; ++position) {
    auto changed = sentence.clone();
    changed.select(1, position).add_(1).remainder_(11);
    const auto after = net->forward(changed);
    EXPECT_TRUE(same_bits(after.slice(1, 0, position), before.slice(1, 0, position))) << position;
    EXPECT_FALSE(same_bits(after.slice(1, position), before.slice(1, position))) << position;
  }
}

TEST(Transformer, TakesTokensAsFloatsToo) {
  const auto net = transformer(kSmall);
  const auto sentence = tokens(2, 7, 11);
  EXPECT_TRUE(same_bits(net->forward(sentence.to(torch::kFloat32)), net->forward(sentence)));
}

TEST(Transformer, GradientsReachEveryParameter) {
  for (const bool tied : {true, false}) {
    TransformerOptions options = kSmall;
    options.tied = tied;
    const auto net = transformer(options);
    const auto text = tokens(4, 8, 11);
    torch::nn::functional::cross_entropy(net->forward(text.slice(1, 0, 7)).flatten(0, 1), text.slice(1, 1).flatten())
        .backward();
    for (const auto& parameter : net->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_GT(parameter.value().grad().abs().sum().item<float>(), 0) << parameter.key();
    }
  }
}

TEST(Transformer, StartsAsGpt2Does) {
  const TransformerOptions options{.layers = 8, .width = 128, .heads = 2, .tied = false};
  for (const auto& parameter : transformer(options)->named_parameters()) {
    const torch::Tensor& value = parameter.value();
    const std::string& name = parameter.key();
    if (name.ends_with("bias")) {
      EXPECT_EQ(value.abs().max().item<float>(), 0) << name;
    } else if (name.find("ln_") != std::string::npos) {
      EXPECT_TRUE(torch::equal(value, torch::ones_like(value))) << name;
    } else {
      const double expected = name == "wpe.weight" ? 0.01 : name.ends_with("c_proj.weight") ? 0.02 / 4 : 0.02;
      // Within 6 standard errors of a deviation measured on so many values.
      EXPECT_NEAR(value.std().item<double>() / expected, 1, 6 / std::sqrt(2.0 * static_cast<double>(value.numel())))
          << name;
    }
  }
}

TEST(Transformer, DropsOnlyInTraining) {
  TransformerOptions options = kSmall;
  options.dropout = 0.5;
  const auto net = transformer(options);
  const auto sentence = tokens(2, 7, 11);
  EXPECT_FALSE(same_bits(net->forward(sentence), net->forward(sentence)));
  net->eval();
  EXPECT_TRUE(same_bits(net->forward(sentence), net->forward(sentence)));
}

TEST(Transformer, RefusesWhatMakesNoNetwork) {
  const auto refusal = [](const TransformerOptions& options) -> std::string {
    try {
      transformer(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput);
      return error.what();
    }
    return "built";
  };
  EXPECT_THAT(refusal({.layers = 0}), HasSubstr("layers is 0"));
  EXPECT_THAT(refusal({.width = 0}), HasSubstr("width is 0"));
  EXPECT_THAT(refusal({.heads = 0}), HasSubstr("heads is 0"));
  EXPECT_THAT(refusal({.context = 0}), HasSubstr("context is 0"));
  EXPECT_THAT(refusal({.vocabulary = 0}), HasSubstr("vocabulary is 0"));
  EXPECT_THAT(refusal({.dropout = 1}), HasSubstr("dropout is 1"));
  EXPECT_THAT(refusal({.width = 10, .heads = 4}), HasSubstr("multiple of its 4 heads"));
  const auto net = transformer(kSmall);
  EXPECT_THROW(net->forward(tokens(1, 8, 11)), Error);
  EXPECT_THROW(net->forward(torch::zeros({3})), Error);
}

}  // namespace
}  // namespace muster::zoo
