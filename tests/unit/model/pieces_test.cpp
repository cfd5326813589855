// The pieces of the zoo's models: one after the other they are the model, and each of them has the same bits when what
// comes before it was computed elsewhere.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/model/block.h"
#include "muster/model/make_model.h"
#include "muster/model/pieces.h"
#include "muster/model/profile.h"
#include "muster/model/zoo/recurrent.h"

namespace muster::model {
namespace {

std::vector<ModelOptions> models_in_pieces() {
  std::vector<ModelOptions> all;
  for (const char* const name : {"transformer", "lstm", "gru"}) {
    ModelOptions options{.name = name};
    options.input_shape = {6};
    options.vocabulary = 11;
    options.classes = 11;
    options.each_position = true;
    options.dropout = 0.3;
    options.width = 8;
    options.depth = 3;
    if (options.name == "transformer") options.heads = 2;
    all.push_back(options);
  }
  for (const char* const name : {"resnet20", "resnet18", "wrn-10-1", "cnn"}) {
    ModelOptions options{.name = name};
    options.input_shape = {3, 16, 16};
    if (!options.name.starts_with("resnet")) options.dropout = 0.3;
    all.push_back(options);
  }
  ModelOptions mlp{.name = "mlp"};
  mlp.input_shape = {12};
  mlp.hidden = {16, 16, 16, 16, 16, 16, 16};
  mlp.dropout = 0.3;
  all.push_back(mlp);
  return all;
}

torch::Tensor batch_for(const ModelOptions& options) {
  std::vector<std::int64_t> shape{4};
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  torch::manual_seed(2);
  return options.vocabulary ? torch::randint(*options.vocabulary, shape, torch::kInt64) : torch::randn(shape);
}

TEST(Pieces, AreTheModelWhereverItIsCut) {
  constexpr std::uint64_t kLaneSeed = 77;
  for (const ModelOptions& options : models_in_pieces()) {
    const std::shared_ptr<Net> net = make_model(options, 1);
    const torch::Tensor batch = batch_for(options);
    torch::manual_seed(kLaneSeed);
    const torch::Tensor whole = net->forward(batch);
    const std::vector<Piece> pieces = net->pieces();
    ASSERT_GE(pieces.size(), 3U) << options.name;
    for (std::size_t cut = 1; cut < pieces.size(); ++cut) {
      torch::Tensor x = batch;
      torch::manual_seed(kLaneSeed);
      std::size_t entered = 0;
      for (std::size_t piece = 0; piece < cut; ++piece) {
        x = pieces[piece].forward(x);
        entered += pieces[piece].block ? 1 : 0;
      }
      // Somebody else goes on from here.
      torch::manual_seed(block_seed(kLaneSeed, entered));
      for (std::size_t piece = cut; piece < pieces.size(); ++piece)
        x = pieces[piece].forward(x);
      EXPECT_TRUE(torch::equal(x, whole)) << options.name << ", cut before " << pieces[cut].name;
    }
  }
}

TEST(Pieces, OfASequentialAreItsModules) {
  torch::nn::Sequential net({{"wide", torch::nn::Linear(6, 8)},
                             {"drop", torch::nn::Dropout(0.5)},
                             {"bend", torch::nn::Functional(torch::relu)},
                             {"again", torch::nn::Dropout(0.5)},
                             {"head", torch::nn::Linear(8, 3)}});
  const std::vector<Piece> pieces = pieces_of(net);
  ASSERT_EQ(pieces.size(), 5U);
  const torch::Tensor batch = torch::randn({4, 6});
  const std::vector<PieceProfile> profiles = profile_pieces(*net, pieces, batch);
  EXPECT_EQ(profiles[0].name, "wide");
  EXPECT_EQ(profiles[0].multiply_adds, 48);
  EXPECT_EQ(profiles[4].parameter_bytes, 27 * sizeof(float));
  EXPECT_EQ(profiles[3].output_bytes, 8 * sizeof(float));
  EXPECT_TRUE(net->is_training());
  // Each draws numbers of its own: whoever goes on needs to know only how many came before.
  constexpr std::uint64_t kLaneSeed = 5;
  torch::manual_seed(kLaneSeed);
  torch::Tensor whole = batch;
  for (const Piece& piece : pieces)
    whole = piece.forward(whole);
  torch::Tensor x = pieces[0].forward(batch);
  torch::manual_seed(block_seed(kLaneSeed, 1));
  x = pieces[2].forward(pieces[1].forward(x));
  torch::manual_seed(block_seed(kLaneSeed, 3));
  x = pieces[4].forward(pieces[3].forward(x));
  EXPECT_TRUE(torch::equal(x, whole));
}

// A layer whose weight is another one's.
struct TiedLinearImpl final : torch::nn::Module {
  explicit TiedLinearImpl(const torch::Tensor& other)
      : weight(register_parameter("weight", other)), bias(register_parameter("bias", torch::zeros(other.size(0)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return torch::linear(x, weight, bias); }

  torch::Tensor weight;
  torch::Tensor bias;
};
TORCH_MODULE(TiedLinear);

// What is trained once has one name, and both pieces use it; else the gradient of one of them would be lost.
TEST(Pieces, OfASequentialThatShareATensorBothHoldIt) {
  const torch::nn::Linear first(4, 4);
  const TiedLinear last(first->weight);
  const torch::nn::Linear twice(4, 4);
  torch::nn::Sequential net(
      {{"first", first}, {"twice", twice}, {"last", last}, {"again", torch::nn::AnyModule(twice)}});
  const std::vector<Piece> pieces = pieces_of(net);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_TRUE(holds_tensor(pieces[2].holds, "first.weight"));
  EXPECT_FALSE(holds_tensor(pieces[2].holds, "first.bias"));
  EXPECT_FALSE(holds_tensor(pieces[1].holds, "first.weight"));
  EXPECT_TRUE(holds_tensor(pieces[3].holds, "twice.weight"));
  EXPECT_TRUE(holds_tensor(pieces[3].holds, "twice.bias"));
  std::uint64_t parameters = 0;
  for (const PieceProfile& piece : profile_pieces(*net, pieces, torch::randn({2, 4})))
    parameters += piece.parameter_bytes;
  EXPECT_EQ(parameters, (16 + 4 + 16 + 4 + 4) * sizeof(float));
}

TEST(Pieces, CostsAddUpToThoseOfTheModel) {
  for (const ModelOptions& options : models_in_pieces()) {
    const std::shared_ptr<Net> net = make_model(options, 1);
    const std::vector<PieceProfile> pieces = profile_pieces(*net, options);
    const ModelProfile whole = profile_model(options);
    std::int64_t multiply_adds = 0;
    std::uint64_t parameters = 0;
    std::uint64_t buffers = 0;
    for (const PieceProfile& piece : pieces) {
      multiply_adds += piece.multiply_adds;
      parameters += piece.parameter_bytes;
      buffers += piece.buffer_bytes;
      EXPECT_GT(piece.output_bytes, 0U);
    }
    EXPECT_EQ(multiply_adds, whole.multiply_adds) << options.name;
    EXPECT_EQ(parameters, whole.parameter_bytes) << options.name;
    EXPECT_EQ(buffers, whole.buffer_bytes) << options.name;
    EXPECT_TRUE(net->is_training());
  }
}

TEST(Pieces, MemoryIsThatOfItsTensors) {
  torch::nn::Sequential net({{"wide", torch::nn::Linear(64, 256)},
                             {"norm", torch::nn::BatchNorm1d(256)},
                             {"bend", torch::nn::Functional(torch::relu)}});
  const torch::Tensor mean = net->named_buffers()["norm.running_mean"].clone();
  const std::vector<PieceMemory> memory = measure_pieces(*net, pieces_of(net), torch::randn({3, 64}));
  ASSERT_EQ(memory.size(), 3U);
  // Each keeps what it gives, 256 floats a sample; a norm the mean and deviation of each channel besides.
  for (const PieceMemory& piece : memory)
    EXPECT_EQ(piece.kept.sample_bytes, 256 * sizeof(float));
  EXPECT_EQ(memory[0].kept.fixed_bytes, 0U);
  EXPECT_GE(memory[1].kept.fixed_bytes, 2 * 256 * sizeof(float));
  // Back: the gradient of what it gives and of what it takes, and of the layer its weight's.
  EXPECT_GE(memory[0].most.fixed_bytes, 64 * 256 * sizeof(float));
  EXPECT_GE(memory[0].most.sample_bytes, (256 + 256 + 64) * sizeof(float));
  EXPECT_LE(memory[0].most.sample_bytes, (256 + 256 + 256 + 64) * sizeof(float));
  // Nothing of it is left.
  EXPECT_TRUE(torch::equal(net->named_buffers()["norm.running_mean"], mean));
  EXPECT_FALSE(net->parameters()[0].grad().defined());
}

TEST(Pieces, AModelThatCannotBeCutHasNone) {
  ModelOptions options{.name = "fbnet_a"};
  options.input_shape = {3, 32, 32};
  const std::shared_ptr<Net> net = make_model(options, 1);
  EXPECT_TRUE(profile_pieces(*net, options).empty());
}

TEST(Pieces, NamesStandForWholeParts) {
  EXPECT_TRUE(holds_tensor({"h.1"}, "h.1.ln_1.weight"));
  EXPECT_FALSE(holds_tensor({"h.1"}, "h.10.ln_1.weight"));
  EXPECT_TRUE(holds_tensor({"rnn.bias_hh_l0"}, "rnn.bias_hh_l0"));
}

// Layer by layer is what torch's own call for all layers gives.
TEST(Pieces, LayersOfAnLstmAreThoseOfTorch) {
  zoo::RecurrentOptions options;
  options.vocabulary = 0;
  options.features = 5;
  options.width = 7;
  options.depth = 3;
  options.classes = 4;
  options.dropout = 0;
  options.each_position = false;
  for (const zoo::Cell cell : {zoo::Cell::kLstm, zoo::Cell::kGru}) {
    options.cell = cell;
    torch::manual_seed(1);
    const std::shared_ptr<Net> net = zoo::recurrent(options);
    const auto children = net->named_children();
    const torch::Tensor x = torch::randn({3, 6, 5});
    const torch::Tensor hidden = cell == zoo::Cell::kLstm
                                     ? std::get<0>(children["rnn"]->as<torch::nn::LSTM>()->forward(x))
                                     : std::get<0>(children["rnn"]->as<torch::nn::GRU>()->forward(x));
    const torch::Tensor expected = children["fc"]->as<torch::nn::Linear>()->forward(hidden.select(1, -1));
    EXPECT_TRUE(torch::equal(net->forward(x), expected));
    net->eval();
    EXPECT_TRUE(torch::equal(net->forward(x), expected));
  }
}

}  // namespace
}  // namespace muster::model
