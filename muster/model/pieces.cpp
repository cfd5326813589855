// A child is called through LibTorch's AnyModule, as Sequential calls it, and as a block: that keys its random numbers
// by its place in the model and not by what was drawn before.
#include "muster/model/pieces.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/model/block.h"

namespace muster::model {

std::vector<Piece> pieces_of(const torch::nn::Sequential& net) {
  std::vector<std::string> names;
  for (const auto& child : net->named_children())
    names.push_back(child.key());
  std::vector<Piece> pieces;
  for (const torch::nn::AnyModule& module : *net) {
    const std::string& name = names[pieces.size()];
    const std::shared_ptr<torch::nn::Module> block = module.ptr();
    const auto forward = [any = module](const torch::Tensor& x) mutable { return any.forward<torch::Tensor>(x); };
    pieces.push_back({name,
                      {name},
                      [block, forward](const torch::Tensor& x) { return run_block(block, forward, x, false); },
                      block});
  }
  if (pieces.empty())
    throw Error(ErrorKind::kInvalidInput, "a Sequential without modules", "net", "Give it those of the model.");
  return pieces;
}

}  // namespace muster::model
