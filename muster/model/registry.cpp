#include "muster/model/registry.h"

#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/base/text.h"
#include "muster/model/make_model.h"
#include "muster/model/script_net.h"
#include "muster/model/zoo/cnn.h"
#include "muster/model/zoo/mlp.h"
#include "muster/model/zoo/resnet.h"
#include "muster/model/zoo/transformer.h"

namespace muster::model {
namespace {

[[noreturn]] void refuse(const ModelOptions& options, const std::string& reason) {
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("model {}: {}", options.script.empty() ? options.name : options.script, reason));
}

void refuse_hidden(const ModelOptions& options) {
  if (options.hidden) refuse(options, "there is no option hidden");
}

void refuse_dropout(const ModelOptions& options) {
  if (options.dropout) refuse(options, "there is no option dropout");
}

// Channels, height, width.
void require_image(const ModelOptions& options, std::int64_t least_side) {
  const auto& shape = options.input_shape;
  if (shape.size() != 3 || shape[0] < 1 || shape[1] < least_side || shape[2] < least_side) {
    refuse(options, fmt::format("needs images of channels x height x width, at least 1x{0}x{0}; the data has samples "
                                "of {1}",
                                least_side, shape.empty() ? "one value" : fmt::format("{}", fmt::join(shape, "x"))));
  }
}

std::shared_ptr<Net> make_mlp(const ModelOptions& options) {
  zoo::MlpOptions mlp;
  mlp.inputs = 1;
  for (const std::int64_t extent : options.input_shape) {
    if (extent < 1 || __builtin_mul_overflow(mlp.inputs, extent, &mlp.inputs)) {
      refuse(options, fmt::format("cannot take samples of {}", fmt::join(options.input_shape, "x")));
    }
  }
  mlp.classes = options.classes;
  if (options.hidden) mlp.hidden = *options.hidden;
  if (options.dropout) mlp.dropout = *options.dropout;
  return zoo::mlp(mlp);
}

std::shared_ptr<Net> make_cnn(const ModelOptions& options) {
  require_image(options, 8);
  zoo::CnnOptions cnn;
  cnn.channels = options.input_shape[0];
  cnn.height = options.input_shape[1];
  cnn.width = options.input_shape[2];
  cnn.classes = options.classes;
  if (options.hidden) {
    if (options.hidden->size() != 1) refuse(options, "has one hidden layer; hidden takes one number");
    cnn.hidden = options.hidden->front();
  }
  if (options.dropout) cnn.dropout = *options.dropout;
  return zoo::cnn(cnn);
}

template <int depth>
std::shared_ptr<Net> make_resnet(const ModelOptions& options) {
  require_image(options, 1);
  refuse_hidden(options);
  refuse_dropout(options);
  return zoo::resnet({.depth = depth, .classes = options.classes, .channels = options.input_shape[0]});
}

std::shared_ptr<Net> make_transformer(const ModelOptions& options) {
  refuse_hidden(options);
  if (!options.vocabulary || options.input_shape.size() != 1) {
    refuse(options, fmt::format("needs text, as sequences of tokens; the data has samples of {} numbers",
                                fmt::join(options.input_shape, "x")));
  }
  zoo::TransformerOptions transformer;
  transformer.context = options.input_shape[0];
  transformer.vocabulary = *options.vocabulary;
  if (options.dropout) transformer.dropout = *options.dropout;
  return zoo::transformer(transformer);
}

struct Row {
  const char* name;
  const char* help;
  std::shared_ptr<Net> (*make)(const ModelOptions&);
};

// A new model is a file in zoo/ and a line here.
constexpr Row kRows[] = {
    {"mlp", "multi-layer perceptron; hidden = [2048, 2048], dropout = 0", make_mlp},
    {"cnn", "small convolutional network in the manner of LeNet; hidden = [128], dropout = 0.25", make_cnn},
    {"resnet18", "ResNet-18, torchvision's parameter names; as resnet34, 50, 101 and 152", make_resnet<18>},
    {"resnet34", "ResNet-34", make_resnet<34>},
    {"resnet50", "ResNet-50, of bottleneck blocks", make_resnet<50>},
    {"resnet101", "ResNet-101", make_resnet<101>},
    {"resnet152", "ResNet-152", make_resnet<152>},
    {"resnet20", "ResNet-20 for CIFAR-sized images; as resnet32, 44, 56 and 110", make_resnet<20>},
    {"resnet32", "ResNet-32", make_resnet<32>},
    {"resnet44", "ResNet-44", make_resnet<44>},
    {"resnet56", "ResNet-56", make_resnet<56>},
    {"resnet110", "ResNet-110", make_resnet<110>},
    {"transformer", "GPT-style language model, for text; dropout = 0", make_transformer},
};

}  // namespace

std::vector<ModelEntry> models() {
  std::vector<ModelEntry> entries;
  for (const Row& row : kRows)
    entries.push_back({row.name, row.help});
  return entries;
}

std::shared_ptr<Net> make_model(const ModelOptions& options, std::uint64_t seed) {
  if (!options.script.empty()) {
    refuse_hidden(options);
    refuse_dropout(options);
    const std::shared_ptr<Net> net = load_script(options.script);
    require_fit(*net, options.input_shape, options.classes, options.script);
    return net;
  }
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (options.name == row.name) {
      torch::manual_seed(derive_seed({.seed = seed, .purpose = Purpose::kModelInit}));
      return row.make(options);
    }
    names.emplace_back(row.name);
  }
  throw Error(ErrorKind::kInvalidInput, fmt::format("there is no model \"{}\"{}; available: {}", options.name,
                                                    did_you_mean(options.name, names), join_words(names)));
}

}  // namespace muster::model
