// A node of autograd stands for the whole block: forward runs it without a graph, backward runs it again with one and
// asks that inner graph for the gradients. Random numbers and buffers are put back around the second run.
#include "muster/model/recompute.h"

#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::model {
namespace {

using torch::autograd::variable_list;

torch::Tensor random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const torch::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// Puts torch's random numbers and the buffers of a module back to where they were.
class Restored {
 public:
  explicit Restored(const torch::nn::Module& module) : random_(random_state()), buffers_(module.buffers()) {
    for (const torch::Tensor& buffer : buffers_)
      values_.push_back(buffer.clone());
  }
  ~Restored() {
    const torch::NoGradGuard no_grad;
    set_random_state(random_);
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].copy_(values_[i]);
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  const torch::Tensor random_;
  const variable_list buffers_;
  variable_list values_;
};

// Takes the hooks off parameters for as long as it lives. LibTorch 2 calls them for gradients that are asked for by
// name, too; in the outer graph they would then be called a second time, with what they made of it the first time.
class WithoutHooks {
 public:
  explicit WithoutHooks(const variable_list& tensors) {
    for (const torch::Tensor& tensor : tensors)
      metas_.push_back(torch::autograd::impl::get_autograd_meta(tensor));
    hooks_.resize(metas_.size());
    exchange();
  }
  ~WithoutHooks() { exchange(); }
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;

 private:
  void exchange() {
    for (std::size_t i = 0; i < metas_.size(); ++i)
      std::swap(metas_[i]->hooks_, hooks_[i]);
  }

  std::vector<torch::autograd::AutogradMeta*> metas_;
  std::vector<decltype(torch::autograd::AutogradMeta::hooks_)> hooks_;
};

// Stands in the graph for the whole block. A Node and not a torch::autograd::Function, since its inputs are as many as
// the block has parameters: so gradients reach them the usual way, hooks included.
class Recomputation final : public torch::autograd::Node {
 public:
  Recomputation(std::shared_ptr<torch::nn::Module> block, std::function<torch::Tensor(const torch::Tensor&)> forward,
                const torch::Tensor& x, torch::Tensor random)
      : block_(std::move(block)),
        forward_(std::move(forward)),
        input_(x, /*is_output=*/false),
        random_(std::move(random)) {}

  variable_list apply(variable_list&& gradients) override {
    variable_list inputs = block_->parameters();
    const torch::Tensor saved = input_.unpack();
    inputs.insert(inputs.begin(), saved.detach().set_requires_grad(saved.requires_grad()));
    variable_list wanted;
    for (const torch::Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    variable_list found;
    {
      // After the gradients, not before: backward of batch norm reads the running statistics' version.
      const Restored restored(*block_);
      set_random_state(random_);
      const at::AutoGradMode with_gradients(true);
      const torch::Tensor output = forward_(inputs[0]);
      const WithoutHooks without_hooks(wanted);
      found = torch::autograd::grad({output}, wanted, {gradients[0]}, /*retain_graph=*/c10::nullopt,
                                    /*create_graph=*/false, /*allow_unused=*/true);
    }
    variable_list results;
    std::size_t next = 0;
    for (const torch::Tensor& input : inputs)
      results.push_back(input.requires_grad() ? found[next++] : torch::Tensor());
    return results;
  }

  void release_variables() override { input_.reset_data(); }

 private:
  const std::shared_ptr<torch::nn::Module> block_;
  const std::function<torch::Tensor(const torch::Tensor&)> forward_;
  torch::autograd::SavedVariable input_;
  const torch::Tensor random_;
};

// How torch holds the nodes of a graph: LibTorch 2.6 by std::shared_ptr, 2.13 by a count inside of the node.
using NodePointer = decltype(torch::autograd::Edge::function);

template <typename Pointer, typename... Arguments>
Pointer make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return Pointer(new Recomputation(std::forward<Arguments>(arguments)...), [](auto* node) { deleteNode(node); });
  else
    return c10::make_intrusive<Recomputation>(std::forward<Arguments>(arguments)...);
}

}  // namespace

torch::Tensor recomputed(const std::shared_ptr<torch::nn::Module>& block,
                         std::function<torch::Tensor(const torch::Tensor&)> forward, const torch::Tensor& x) {
  if (!torch::GradMode::is_enabled()) return forward(x);
  const torch::Tensor random = random_state();
  torch::Tensor output;
  {
    const torch::NoGradGuard no_grad;
    output = forward(x);
  }
  variable_list inputs = block->parameters();
  inputs.insert(inputs.begin(), x);
  const bool wanted =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.requires_grad(); });
  if (!wanted) return output;
  const auto node = make_node<NodePointer>(block, std::move(forward), x, random);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace muster::model
