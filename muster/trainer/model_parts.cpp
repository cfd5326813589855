// Parts become children of one module, which is all that binding, freezing and evaluating have to know of them. Names
// are checked here, because they become parts of the names of tensors.
#include "muster/trainer/model_parts.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::trainer {
namespace {

struct Whole : torch::nn::Module {};

[[noreturn]] void refuse(const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::kInvalidInput, message, {}, remedy);
}

void check_names(const std::vector<ModelPart>& parts) {
  std::set<std::string> names;
  for (const ModelPart& part : parts) {
    const std::string& name = part.options.name;
    if (name.empty() || name.find('.') != std::string::npos)
      refuse(fmt::format("a part of the model cannot be called \"{}\"", name),
             "The names of its tensors begin with it: use a word without a dot.");
    if (!names.insert(name).second) refuse(fmt::format("two parts of the model are called {}", name), "Rename one.");
    if (!part.module) refuse(fmt::format("part {} of the model has no module", name), "Make it before the session.");
  }
}

void take_gradients(const ModelPart& part, const std::vector<ModelPart>& all) {
  std::set<const void*> others;
  for (const ModelPart& other : all) {
    if (!other.options.optimizer) continue;
    for (const torch::Tensor& tensor : other.module->parameters())
      others.insert(tensor.unsafeGetTensorImpl());
  }
  for (auto& item : part.module->named_parameters()) {
    if (others.contains(item.value().unsafeGetTensorImpl()))
      refuse(fmt::format("part {} has no optimizer, and its parameter {} is also one of a part that trains",
                         part.options.name, item.key()),
             "Give it a copy of the module: clone() makes one.");
    item.value().requires_grad_(false);
  }
}

}  // namespace

ModelParts::ModelParts(std::vector<ModelPart> parts) : parts_(std::move(parts)) {
  check_names(parts_);
  if (std::ranges::none_of(parts_, [](const ModelPart& part) { return part.options.optimizer.has_value(); }))
    refuse("no part of the model has an optimizer", "Give one to each part that is to train.");
  module_ = std::make_shared<Whole>();
  for (const ModelPart& part : parts_) {
    if (!part.options.optimizer) take_gradients(part, parts_);
    module_->register_module(part.options.name, part.module);
  }
}

ModelParts::ModelParts(std::shared_ptr<torch::nn::Module> module, const compute::OptimizerOptions& optimizer)
    : parts_{ModelPart({}, module, optimizer)}, module_(std::move(module)) {
  if (!module_) refuse("there is no model", "Make it before the session.");
}

std::size_t ModelParts::part_of(std::string_view tensor) const {
  if (parts_.size() == 1) return 0;
  const std::string_view name = tensor.substr(0, tensor.find('.'));
  const auto part = std::ranges::find_if(parts_, [&](const ModelPart& one) { return one.options.name == name; });
  MUSTER_CHECK(part != parts_.end(), "a tensor of no part");
  return static_cast<std::size_t>(part - parts_.begin());
}

std::vector<torch::Tensor> ModelParts::trainable(std::string_view name) const {
  const auto part = std::ranges::find_if(parts_, [&](const ModelPart& one) { return one.options.name == name; });
  if (name.empty() || part == parts_.end()) {
    std::vector<std::string> names;
    for (const ModelPart& one : parts_)
      if (!one.options.name.empty()) names.push_back(one.options.name);
    refuse(fmt::format("the model has no part \"{}\"", name),
           names.empty() ? "It is in one piece: backward(loss) is for all of it."
                         : fmt::format("Its parts are {}.", join_words(names)));
  }
  std::vector<torch::Tensor> tensors;
  for (const torch::Tensor& tensor : part->module->parameters())
    if (tensor.requires_grad()) tensors.push_back(tensor);
  return tensors;
}

}  // namespace muster::trainer
