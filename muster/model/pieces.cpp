// A child of a Sequential is called through LibTorch's AnyModule, as Sequential calls it; all are called as blocks:
// that keys random numbers by a block's place in the model and not by what was drawn before.
#include "muster/model/pieces.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/block.h"

namespace muster::model {
namespace {

// Under which names the tensors of a model are trained: tied ones have that of their first place.
class FirstNames {
 public:
  explicit FirstNames(const torch::nn::Module& net) {
    add(net.named_parameters());
    add(net.named_buffers());
  }

  // Of what `child` has: beside what is in the modules called `names`, if there are some.
  std::vector<std::string> held_by(std::vector<std::string> names, const torch::nn::Module& child) const {
    const auto add_others = [&](const auto& items) {
      for (const auto& item : items) {
        const auto first = names_.find(item.value().unsafeGetTensorImpl());
        if (first != names_.end() && !holds_tensor(names, first->second)) names.push_back(first->second);
      }
    };
    add_others(child.named_parameters());
    add_others(child.named_buffers());
    return names;
  }

 private:
  template <typename Items>
  void add(const Items& items) {
    for (const auto& item : items)
      names_.emplace(item.value().unsafeGetTensorImpl(), item.key());
  }

  std::map<const void*, std::string> names_;
};

Piece piece_of(const std::string& name, const std::shared_ptr<torch::nn::Module>& block,
               std::function<torch::Tensor(const torch::Tensor&)> forward, std::vector<std::string> holds) {
  return {name, std::move(holds),
          [block, forward = std::move(forward)](const torch::Tensor& x) { return run_block(block, forward, x, false); },
          block};
}

}  // namespace

std::vector<Piece> pieces_of(const torch::nn::Sequential& net) {
  std::vector<std::string> names;
  for (const auto& child : net->named_children())
    names.push_back(child.key());
  const FirstNames first_names(*net);
  std::vector<Piece> pieces;
  for (const torch::nn::AnyModule& module : *net) {
    const std::string& name = names[pieces.size()];
    const auto forward = [any = module](const torch::Tensor& x) mutable { return any.forward<torch::Tensor>(x); };
    pieces.push_back(piece_of(name, module.ptr(), forward, first_names.held_by({name}, *module.ptr())));
  }
  if (pieces.empty())
    throw Error(ErrorKind::kInvalidInput, "a Sequential without modules", "net", "Give it those of the model.");
  return pieces;
}

std::vector<Piece> pieces_of(const torch::nn::Module& net, const std::vector<NamedBlock>& blocks) {
  const FirstNames first_names(net);
  const std::vector<std::shared_ptr<torch::nn::Module>> modules = net.modules(/*include_self=*/false);
  std::vector<Piece> pieces;
  for (const NamedBlock& block : blocks) {
    if (block.name.empty() || std::ranges::find(pieces, block.name, &Piece::name) != pieces.end())
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("\"{}\" is no name for a block, or that of another one", block.name), "blocks",
                  "Give each a name of its own.");
    if (std::ranges::find(modules, block.module) == modules.end())
      throw Error(ErrorKind::kInvalidInput, fmt::format("block {} is no module of the model", block.name), "blocks",
                  "Register it there: register_module().");
    pieces.push_back(piece_of(block.name, block.module, block.forward, first_names.held_by({}, *block.module)));
  }
  if (pieces.empty())
    throw Error(ErrorKind::kInvalidInput, "there are no blocks", "blocks", "Give those of the model, in order.");
  return pieces;
}

}  // namespace muster::model
