// Walks the graphs of a script and looks where the flag of a dropout or batch norm comes from: from the module's own
// mode, or from a constant that tracing left there.
#include "muster/model/script_modes.h"

#include <map>
#include <set>
#include <string_view>

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <fmt/format.h>

namespace muster::model {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;

enum class Layer { kDropout, kRecurrent, kBatchNorm };

struct Found {
  Layer layer = Layer::kDropout;
  bool training = false;

  auto operator<=>(const Found&) const = default;
};

// The input of that name, or null where the operation has none.
const Value* input_of(const Node& node, std::string_view name) {
  const torch::jit::FunctionSchema* const schema = node.maybeSchema();
  if (schema == nullptr) return nullptr;
  const auto& arguments = schema->arguments();
  for (std::size_t i = 0; i < arguments.size() && i < node.inputs().size(); ++i) {
    if (arguments[i].name() == name) return node.inputs()[i];
  }
  return nullptr;
}

bool is_zero(const Value* value) {
  const auto constant = value == nullptr ? decltype(torch::jit::toIValue(value)){} : torch::jit::toIValue(value);
  return constant && constant->isDouble() && constant->toDouble() == 0;
}

// Whether the value is made of the module's own flag.
bool depends_on_mode(const Value* value, std::set<const Node*>& seen) {
  const Node* const node = value->node();
  if (!seen.insert(node).second) return false;
  if (node->kind() == c10::prim::GetAttr && node->s(c10::attr::name) == "training") return true;
  for (const Value* input : node->inputs()) {
    if (depends_on_mode(input, seen)) return true;
  }
  return false;
}

// Whether the node runs in one of the modes only, because the script says so.
bool under_mode(const Node& node) {
  for (const Block* block = node.owningBlock(); block != nullptr && block->owningNode() != nullptr;
       block = block->owningNode()->owningBlock()) {
    const Node* const owner = block->owningNode();
    std::set<const Node*> seen;
    if (owner->kind() == c10::prim::If && depends_on_mode(owner->input(0), seen)) return true;
  }
  return false;
}

void look_at(const Node& node, std::map<Found, int>& counts) {
  const std::string_view name = node.kind().toQualString();
  Found found;
  const Value* mode = nullptr;
  if (name.ends_with("dropout") || name.ends_with("dropout_")) {
    mode = input_of(node, "train");
    if (is_zero(input_of(node, "p"))) return;
  } else if (name == "aten::lstm" || name == "aten::gru" || name == "aten::rnn_tanh" || name == "aten::rnn_relu") {
    found.layer = Layer::kRecurrent;
    mode = input_of(node, "train");
    if (is_zero(input_of(node, "dropout"))) return;
  } else if (name == "aten::batch_norm") {
    found.layer = Layer::kBatchNorm;
    mode = input_of(node, "training");
    const Value* const statistics = input_of(node, "running_mean");
    // Without statistics it goes by the batch in both modes.
    if (statistics == nullptr || statistics->type()->kind() == c10::TypeKind::NoneType) return;
  }
  if (mode == nullptr) return;
  const auto constant = torch::jit::toIValue(mode);
  if (!constant || !constant->isBool() || under_mode(node)) return;
  found.training = constant->toBool();
  ++counts[found];
}

void look_into(const Block& block, std::map<Found, int>& counts) {
  for (const Node* node : block.nodes()) {
    look_at(*node, counts);
    for (const Block* inner : node->blocks())
      look_into(*inner, counts);
  }
}

std::string sentence(const Found& found, int count) {
  const bool one = count == 1;
  const char* const is = one ? "is" : "are";
  const char* const it = one ? "it" : "they";
  const char* const mode = found.training ? "training" : "evaluation";
  if (found.layer == Layer::kBatchNorm) {
    return fmt::format("{} batch norm{} {} fixed to {}: {}", count, one ? "" : "s", is, mode,
                       found.training ? "what the model says of a sample depends on the others of its batch"
                                      : "the statistics in the file are used, and never change");
  }
  const char* const what = found.layer == Layer::kDropout ? "dropout" : "recurrent layer";
  return fmt::format(
      "{} {}{} {} fixed to {}: {} {}", count, what, one ? "" : "s", is, mode, it,
      found.training
          ? (one ? "drops while the model is evaluated and used too" : "drop while the model is evaluated and used too")
          : (one ? "drops nothing while the model trains" : "drop nothing while the model trains"));
}

}  // namespace

std::vector<std::string> fixed_modes(const torch::jit::Module& script) {
  const auto forward = script.find_method("forward");
  if (!forward) return {};
  const std::shared_ptr<torch::jit::Graph> graph = forward->graph()->copy();
  torch::jit::Inline(*graph);
  std::map<Found, int> counts;
  look_into(*graph->block(), counts);
  std::vector<std::string> sentences;
  for (const auto& [found, count] : counts)
    sentences.push_back(sentence(found, count));
  return sentences;
}

}  // namespace muster::model
