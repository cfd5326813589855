// The script's tensors are registered under their own names in a tree of plain modules, the same tensor objects, so
// that whatever trains a module trains the script. Tensors that the script replaces are moved back into the known ones.
#include "muster/model/script_net.h"

#include <algorithm>
#include <string>
#include <utility>

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/model/script_check.h"
#include "muster/model/script_modes.h"

namespace muster::model {
namespace {

// A node of the tree of names.
class Part final : public torch::nn::Module {};

// LibTorch's own words up to its stack trace.
std::string first_lines(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from"));
}

class ScriptNet final : public Net {
 public:
  ScriptNet(torch::jit::Module script, std::string path) : script_(std::move(script)), path_(std::move(path)) {
    adopt(script_, *this, "");
    if (parameters().empty()) {
      throw Error(ErrorKind::kUnsupported, "the script has no parameters", path_,
                  "Save it before torch.jit.freeze(), which turns parameters into constants.");
    }
    train();
  }

  torch::Tensor forward(torch::Tensor x) override {
    // For this thread and this call, so that nothing else in the process need know about it.
    const torch::jit::GraphOptimizerEnabledGuard as_written(false);
    try {
      const torch::jit::IValue result = script_.forward({std::move(x)});
      if (!result.isTensor()) {
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("forward() gives {} instead of a tensor of scores", result.type()->repr_str()), path_);
      }
      keep_tensors();
      return result.toTensor();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // the interpreter throws more than c10::Error
      throw Error(ErrorKind::kCompute, first_lines(error), path_);
    }
  }

  void train(bool on = true) override {
    torch::nn::Module::train(on);
    script_.train(on);
  }

  const torch::jit::Module& script() const { return script_; }

 private:
  // A tensor and the place in the script that must go on holding it.
  struct Slot {
    torch::jit::Module owner;
    std::string name;
    std::string full_name;
    torch::Tensor tensor;
    bool is_parameter;
  };

  // Registers the tensors of `script` and of all below it with `part`: the same tensor objects, so that what Muster
  // does to them the script sees.
  void adopt(const torch::jit::Module& script, torch::nn::Module& part, const std::string& prefix) {
    for (const auto& item : script.named_parameters(/*recurse=*/false)) {
      if (!item.value.defined()) continue;
      if (item.value.scalar_type() != torch::kFloat32) {
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("parameter {}{} is {}, not float32", prefix, item.name,
                                c10::toString(item.value.scalar_type())),
                    path_, "Convert the model with float() before it is saved.");
      }
      const torch::Tensor tensor = tied(item.value);
      part.register_parameter(item.name, tensor, tensor.requires_grad());
      add_slot({script, item.name, prefix + item.name, tensor, true});
    }
    for (const auto& item : script.named_buffers(/*recurse=*/false)) {
      if (!item.value.defined()) continue;
      const torch::Tensor tensor = tied(item.value);
      part.register_buffer(item.name, tensor);
      add_slot({script, item.name, prefix + item.name, tensor, false});
    }
    for (const auto& child : script.named_children()) {
      const auto below = std::make_shared<Part>();
      adopt(child.value, *below, prefix + child.name + ".");
      part.register_module(child.name, below);
    }
  }

  // A file keeps tied tensors as several tensors over one memory. Here they become one again, so that they get one
  // gradient and one update.
  torch::Tensor tied(const torch::Tensor& tensor) const {
    for (const Slot& slot : slots_) {
      if (tensor.numel() > 0 && slot.tensor.data_ptr() == tensor.data_ptr() && slot.tensor.sizes() == tensor.sizes() &&
          slot.tensor.strides() == tensor.strides() && slot.tensor.scalar_type() == tensor.scalar_type()) {
        return slot.tensor;
      }
    }
    return tensor;
  }

  void add_slot(Slot slot) {
    slot.owner.setattr(slot.name, slot.tensor);
    slots_.push_back(std::move(slot));
  }

  // A script may assign a new tensor to a name (self.count = self.count + 1). Its value moves into the tensor that
  // everybody else knows.
  void keep_tensors() {
    const torch::NoGradGuard no_grad;
    for (Slot& slot : slots_) {
      const torch::Tensor now = slot.owner.attr(slot.name).toTensor();
      if (now.is_same(slot.tensor)) continue;
      if (slot.is_parameter || !now.defined() || now.sizes() != slot.tensor.sizes() ||
          now.scalar_type() != slot.tensor.scalar_type()) {
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("forward() put another {} in the place of {}", slot.is_parameter ? "tensor" : "shape",
                                slot.full_name),
                    path_, "Change buffers in place and parameters not at all.");
      }
      slot.tensor.copy_(now);
      slot.owner.setattr(slot.name, slot.tensor);
    }
  }

  torch::jit::Module script_;
  const std::string path_;
  std::vector<Slot> slots_;
};

void require_one_tensor(const torch::jit::Module& script, const std::string& path) {
  const auto forward = script.find_method("forward");
  if (!forward) throw Error(ErrorKind::kUnsupported, "the script has no forward()", path);
  const auto& arguments = forward->function().getSchema().arguments();
  std::size_t needed = 0;  // beside self
  for (std::size_t i = 1; i < arguments.size(); ++i)
    needed += arguments[i].default_value() ? 0 : 1;
  if (arguments.size() < 2 || needed > 1) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("forward() takes {} arguments; it must take a batch and nothing else", needed), path);
  }
}

}  // namespace

std::shared_ptr<Net> load_script(const std::filesystem::path& path) {
  const auto refuse = [&](ErrorKind kind, const std::string& reason) {
    throw Error(kind, "cannot be read as TorchScript: " + reason, path.string(),
                "Save the model with torch.jit.script(model).save(...) and copy the whole file.");
  };
  // LibTorch runs what it reads: it gets nothing to see that is not a whole script.
  open_for_reading(path);  // for its messages
  try {
    check_script(path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kDamaged && error.kind() != ErrorKind::kUnsupported) throw;
    refuse(error.kind(), error.message());
  }
  torch::jit::Module script;
  try {
    script = torch::jit::load(path.string(), torch::kCPU);
  } catch (const std::exception& error) {
    refuse(ErrorKind::kDamaged, first_lines(error));
  }
  require_one_tensor(script, path.string());
  return std::make_shared<ScriptNet>(std::move(script), path.string());
}

std::vector<std::string> script_doubts(const Net& net) {
  const auto* const script = dynamic_cast<const ScriptNet*>(&net);
  if (script == nullptr) return {};
  std::vector<std::string> doubts = fixed_modes(script->script());
  for (std::string& doubt : doubts)
    doubt += ". torch.jit.trace() writes down the mode of the moment; torch.jit.script() keeps both.";
  return doubts;
}

void require_fit(Net& net, const ModelOptions& options) {
  const std::string& file = options.script.empty() ? options.library : options.script;
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> shape{2};
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  std::vector<torch::Tensor> before;
  for (const torch::Tensor& buffer : net.buffers())
    before.push_back(buffer.clone());
  const bool was_training = net.is_training();
  net.eval();
  torch::Tensor scores;
  try {
    scores = net.forward(torch::zeros(shape, options.vocabulary ? torch::kInt64 : torch::kFloat32));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCompute) throw;
    throw Error(ErrorKind::kMismatch,
                fmt::format("does not take samples of {}: {}", fmt::join(options.input_shape, "x"), error.message()),
                file);
  } catch (const std::exception& error) {  // of a library's model
    throw Error(ErrorKind::kMismatch,
                fmt::format("does not take samples of {}: {}", fmt::join(options.input_shape, "x"), first_lines(error)),
                file);
  }
  net.train(was_training);
  const std::vector<torch::Tensor> after = net.buffers();
  for (std::size_t i = 0; i < after.size(); ++i)
    after[i].copy_(before[i]);
  std::vector<std::int64_t> expected{2};
  if (options.each_position) expected.push_back(options.input_shape.front());
  expected.push_back(options.classes);
  const auto given = scores.sizes().vec();
  if (given != expected || scores.scalar_type() != torch::kFloat32) {
    throw Error(
        ErrorKind::kMismatch,
        fmt::format("gives {} of {} for 2 samples; {} classes need float32 of {}", c10::toString(scores.scalar_type()),
                    fmt::join(given, "x"), options.classes, fmt::join(expected, "x")),
        file, "Give the model a last layer as wide as the data asks for.");
  }
}

}  // namespace muster::model
