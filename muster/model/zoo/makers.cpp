// One function a model from options to a net, and the table that names them. Options that a model does not know are
// refused here: whoever wrote them believes that they do something.
#include "muster/model/zoo/makers.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/model/zoo/block_words.h"
#include "muster/model/zoo/cnn.h"
#include "muster/model/zoo/fbnet.h"
#include "muster/model/zoo/mlp.h"
#include "muster/model/zoo/recurrent.h"
#include "muster/model/zoo/resnet.h"
#include "muster/model/zoo/transformer.h"
#include "muster/model/zoo/wide_deep.h"
#include "muster/model/zoo/wide_resnet.h"

namespace muster::zoo {
namespace {

using model::ModelOptions;
using model::Net;

[[noreturn]] void refuse(const ModelOptions& options, const std::string& reason) {
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("model {}: {}", options.script.empty() ? options.name : options.script, reason));
}

std::string shown(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "one value" : fmt::format("{}", fmt::join(shape, "x"));
}

Activation activation_of(const ModelOptions& options) {
  const std::string name = options.activation.value_or("relu");
  if (name == "relu") return Activation::kRelu;
  if (name == "leaky_relu") return Activation::kLeakyRelu;
  refuse(options, fmt::format("there is no activation \"{}\"; there are relu and leaky_relu", name));
}

// Channels, height, width.
void require_image(const ModelOptions& options, std::int64_t least_side) {
  const auto& shape = options.input_shape;
  if (shape.size() != 3 || shape[0] < 1 || shape[1] < least_side || shape[2] < least_side) {
    refuse(options, fmt::format("needs images of channels x height x width, at least 1x{0}x{0}; the data has samples "
                                "of {1}",
                                least_side, shown(shape)));
  }
}

void refuse_positions(const ModelOptions& options) {
  if (options.each_position) refuse(options, "gives one row of scores a sample, and the data wants one a position");
}

std::shared_ptr<Net> make_mlp(const ModelOptions& options) {
  refuse_positions(options);
  MlpOptions mlp_options;
  mlp_options.inputs = 1;
  for (const std::int64_t extent : options.input_shape) {
    if (extent < 1 || __builtin_mul_overflow(mlp_options.inputs, extent, &mlp_options.inputs)) {
      refuse(options, fmt::format("cannot take samples of {}", fmt::join(options.input_shape, "x")));
    }
  }
  mlp_options.classes = options.classes;
  if (options.hidden) mlp_options.hidden = *options.hidden;
  if (options.dropout) mlp_options.dropout = *options.dropout;
  mlp_options.activation = activation_of(options);
  return mlp(mlp_options);
}

std::shared_ptr<Net> make_cnn(const ModelOptions& options) {
  require_image(options, 8);
  refuse_positions(options);
  CnnOptions cnn_options;
  cnn_options.channels = options.input_shape[0];
  cnn_options.height = options.input_shape[1];
  cnn_options.width = options.input_shape[2];
  cnn_options.classes = options.classes;
  if (options.hidden) {
    if (options.hidden->size() != 1) refuse(options, "has one hidden layer; hidden takes one number");
    cnn_options.hidden = options.hidden->front();
  }
  if (options.dropout) cnn_options.dropout = *options.dropout;
  cnn_options.layers = layers_of(options);
  return cnn(cnn_options);
}

template <int depth, int width_factor = 1>
std::shared_ptr<Net> make_resnet(const ModelOptions& options) {
  require_image(options, 1);
  refuse_positions(options);
  return resnet({.depth = depth,
                 .classes = options.classes,
                 .channels = options.input_shape[0],
                 .width_factor = width_factor,
                 .layers = layers_of(options),
                 .recompute = options.recompute});
}

// Depth and factor of "wrn-28-10"; nothing for another name.
std::optional<std::pair<std::int64_t, std::int64_t>> wide_resnet_numbers(const std::string& name) {
  constexpr std::string_view kPrefix = "wrn-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t depth = 0;
  std::int64_t factor = 0;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data() + kPrefix.size(), end, depth);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, factor);
  if (second.ec != std::errc() || second.ptr != end || depth > 10'000 || factor > 1000) return std::nullopt;
  return std::pair(depth, factor);
}

std::shared_ptr<Net> make_wide_resnet(const ModelOptions& options) {
  require_image(options, 1);
  refuse_positions(options);
  const auto numbers = wide_resnet_numbers(options.name);
  return wide_resnet({.depth = numbers->first,
                      .factor = numbers->second,
                      .classes = options.classes,
                      .channels = options.input_shape[0],
                      .dropout = options.dropout.value_or(0),
                      .layers = layers_of(options),
                      .recompute = options.recompute});
}

template <char variant>
std::shared_ptr<Net> make_fbnet(const ModelOptions& options) {
  require_image(options, 1);
  refuse_positions(options);
  return fbnet({.variant = variant,
                .classes = options.classes,
                .channels = options.input_shape[0],
                .layers = layers_of(options)});
}

std::shared_ptr<Net> make_block_net(const ModelOptions& options) {
  require_image(options, 1);
  refuse_positions(options);
  return fbnet({.blocks = options.name,
                .classes = options.classes,
                .channels = options.input_shape[0],
                .layers = layers_of(options)});
}

template <Cell cell>
std::shared_ptr<Net> make_recurrent(const ModelOptions& options) {
  RecurrentOptions recurrent_options;
  recurrent_options.cell = cell;
  const auto& shape = options.input_shape;
  if (options.vocabulary && shape.size() == 1) {
    recurrent_options.vocabulary = *options.vocabulary;
    if (options.embedding) recurrent_options.embedding = *options.embedding;
  } else if (!options.vocabulary && shape.size() == 2) {
    if (options.embedding) refuse(options, "embedding is for tokens, and the data has numbers");
    recurrent_options.vocabulary = 0;
    recurrent_options.features = shape[1];
  } else {
    refuse(options, fmt::format("needs sequences: of tokens, or of positions x features numbers; the data has samples "
                                "of {}",
                                shown(shape)));
  }
  if (options.width) recurrent_options.width = *options.width;
  if (options.depth) recurrent_options.depth = *options.depth;
  if (options.dropout) recurrent_options.dropout = *options.dropout;
  recurrent_options.classes = options.classes;
  recurrent_options.each_position = options.each_position;
  return recurrent(recurrent_options);
}

std::shared_ptr<Net> make_transformer(const ModelOptions& options) {
  if (!options.vocabulary || options.input_shape.size() != 1) {
    refuse(options, fmt::format("needs text, as sequences of tokens; the data has samples of {} numbers",
                                fmt::join(options.input_shape, "x")));
  }
  TransformerOptions transformer_options;
  transformer_options.context = options.input_shape[0];
  transformer_options.vocabulary = *options.vocabulary;
  transformer_options.classes = options.classes;
  transformer_options.each_position = options.each_position;
  transformer_options.recompute = options.recompute;
  if (options.width) transformer_options.width = *options.width;
  if (options.depth) transformer_options.layers = *options.depth;
  if (options.heads) transformer_options.heads = *options.heads;
  if (options.dropout) transformer_options.dropout = *options.dropout;
  return transformer(transformer_options);
}

std::shared_ptr<Net> make_wide_deep(const ModelOptions& options) {
  refuse_positions(options);
  if (options.columns.empty()) {
    refuse(options, fmt::format("needs a table, whose columns it knows (source csv); the data has samples of {}",
                                shown(options.input_shape)));
  }
  WideDeepOptions wide_deep_options;
  wide_deep_options.columns = options.columns;
  wide_deep_options.classes = options.classes;
  wide_deep_options.embedding = options.embedding;
  if (options.hidden) wide_deep_options.hidden = *options.hidden;
  if (options.dropout) wide_deep_options.dropout = *options.dropout;
  wide_deep_options.activation = activation_of(options);
  return wide_deep(wide_deep_options);
}

ModelOptions pictures(std::int64_t channels, std::int64_t side, std::int64_t classes) {
  return {.input_shape = {channels, side, side}, .classes = classes};
}

ModelOptions text() {
  return {.input_shape = {64}, .classes = 256, .each_position = true, .vocabulary = 256};
}

// Six numbers and columns of 2, 8, 16 and 40 categories.
ModelOptions table() {
  return {.input_shape = {72}, .classes = 2, .columns = {1, 1, 1, 2, 8, 1, 16, 1, 40, 1}};
}

}  // namespace

LayerOptions layers_of(const ModelOptions& options) {
  LayerOptions layers;
  layers.activation = activation_of(options);
  const std::string norm = options.norm.value_or("batch");
  if (norm == "group")
    layers.norm = NormKind::kGroup;
  else if (norm != "batch")
    refuse(options, fmt::format("there is no norm \"{}\"; there are batch and group", norm));
  if (options.groups && layers.norm != NormKind::kGroup) refuse(options, "groups belongs to norm \"group\"");
  layers.groups = options.groups;
  return layers;
}

// A new model is a file in this folder and a line here.
const std::vector<Row>& rows() {
  static const std::vector<std::string> layers{"activation", "norm", "groups"};
  static const std::vector<std::string> blocks{"activation", "norm", "groups", "recompute"};
  static const std::vector<std::string> dropped_blocks{"dropout", "activation", "norm", "groups", "recompute"};
  static const std::vector<std::string> recurrence{"dropout", "width", "depth", "embedding"};
  static const ModelOptions large = pictures(3, 224, 1000);
  static const ModelOptions small = pictures(3, 32, 10);
  static const std::vector<Row> table_of_models{
      {"mlp",
       "multi-layer perceptron; hidden = [2048, 2048], dropout = 0",
       pictures(1, 28, 10),
       {"hidden", "dropout", "activation"},
       make_mlp},
      {"cnn",
       "small convolutional network in the manner of LeNet; hidden = [128], dropout = 0.25",
       pictures(1, 28, 10),
       {"hidden", "dropout", "activation", "norm", "groups"},
       make_cnn},
      {"resnet18", "ResNet-18, torchvision's parameter names; as resnet34, 50, 101 and 152", large, blocks,
       make_resnet<18>},
      {"resnet34", "ResNet-34", large, blocks, make_resnet<34>},
      {"resnet50", "ResNet-50, of bottleneck blocks", large, blocks, make_resnet<50>},
      {"resnet101", "ResNet-101", large, blocks, make_resnet<101>},
      {"resnet152", "ResNet-152", large, blocks, make_resnet<152>},
      {"wide_resnet50_2", "torchvision's Wide ResNet-50-2: ResNet-50 with bottlenecks twice as wide", large, blocks,
       make_resnet<50, 2>},
      {"wide_resnet101_2", "torchvision's Wide ResNet-101-2", large, blocks, make_resnet<101, 2>},
      {"resnet20", "ResNet-20 for CIFAR-sized images; as resnet32, 44, 56 and 110", small, blocks, make_resnet<20>},
      {"resnet32", "ResNet-32", small, blocks, make_resnet<32>},
      {"resnet44", "ResNet-44", small, blocks, make_resnet<44>},
      {"resnet56", "ResNet-56", small, blocks, make_resnet<56>},
      {"resnet110", "ResNet-110", small, blocks, make_resnet<110>},
      {"wrn-28-10", "Wide ResNet of the paper, for CIFAR-sized images; any wrn-D-K with D = 6n + 4; dropout = 0", small,
       dropped_blocks, make_wide_resnet},
      {"fbnet_a", "FBNet-A, of grouped inverted residuals", large, layers, make_fbnet<'a'>},
      {"fbnet_b", "FBNet-B", large, layers, make_fbnet<'b'>},
      {"fbnet_c", "FBNet-C", large, layers, make_fbnet<'c'>},
      {"fbnet-8-16k3e3s2-32",
       "any net of FBNet's blocks: fbnet-STEM-BLOCK-...-HEAD, kernel k, expansion e, stride s, groups g",
       pictures(1, 28, 10), layers, make_block_net},
      {"lstm", "LSTM for text or series; embedding = 64, width = 256, depth = 2, dropout = 0", text(), recurrence,
       make_recurrent<Cell::kLstm>},
      {"gru", "GRU, with the options of lstm", text(), recurrence, make_recurrent<Cell::kGru>},
      {"transformer",
       "GPT-style transformer, for text; width = 256, depth = 4, heads = 4, dropout = 0",
       text(),
       {"dropout", "width", "depth", "heads", "recompute"},
       make_transformer},
      {"wide_deep",
       "wide and deep, for tables with categories; hidden = [256, 128, 64], embedding by column",
       table(),
       {"hidden", "dropout", "activation", "embedding"},
       make_wide_deep},
  };
  return table_of_models;
}

const Row* find_row(const std::string& name) {
  for (const Row& row : rows()) {
    if (name == row.name) return &row;
    if (row.make == make_wide_resnet && wide_resnet_numbers(name)) return &row;
    if (row.make == make_block_net && is_block_net(name)) return &row;
  }
  return nullptr;
}

void refuse_other_options(const ModelOptions& options, const std::vector<std::string>& known) {
  const std::pair<const char*, bool> given[] = {
      {"hidden", options.hidden.has_value()},         {"dropout", options.dropout.has_value()},
      {"activation", options.activation.has_value()}, {"norm", options.norm.has_value()},
      {"groups", options.groups.has_value()},         {"width", options.width.has_value()},
      {"depth", options.depth.has_value()},           {"heads", options.heads.has_value()},
      {"embedding", options.embedding.has_value()},   {"recompute", options.recompute},
  };
  for (const auto& [option, is_given] : given) {
    if (is_given && std::find(known.begin(), known.end(), option) == known.end())
      refuse(options, fmt::format("there is no option {}", option));
  }
}

}  // namespace muster::zoo
