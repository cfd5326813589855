// A child is called through LibTorch's AnyModule, as Sequential calls it, and as a block: that keys its random numbers
// by its place in the model and not by what was drawn before.
#include "muster/model/pieces.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

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

  // The child that is called `name`, and what it shares with children before it.
  std::vector<std::string> held_by(const std::string& name, const torch::nn::Module& child) const {
    std::vector<std::string> names{name};
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

}  // namespace

std::vector<Piece> pieces_of(const torch::nn::Sequential& net) {
  std::vector<std::string> names;
  for (const auto& child : net->named_children())
    names.push_back(child.key());
  const FirstNames first_names(*net);
  std::vector<Piece> pieces;
  for (const torch::nn::AnyModule& module : *net) {
    const std::string& name = names[pieces.size()];
    const std::shared_ptr<torch::nn::Module> block = module.ptr();
    const auto forward = [any = module](const torch::Tensor& x) mutable { return any.forward<torch::Tensor>(x); };
    pieces.push_back({name, first_names.held_by(name, *block),
                      [block, forward](const torch::Tensor& x) { return run_block(block, forward, x, false); }, block});
  }
  if (pieces.empty())
    throw Error(ErrorKind::kInvalidInput, "a Sequential without modules", "net", "Give it those of the model.");
  return pieces;
}

}  // namespace muster::model
