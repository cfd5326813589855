// A mirror of the module tree with the same tensors stands in for the model while it is traced: a tracer looks up
// tensors by their place in such a tree. What was traced is compared before the file gets its name.
#include "muster/model/export_script.h"

#include <sstream>
#include <string>
#include <utility>

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"

namespace muster::model {
namespace {

// LibTorch's own words up to its stack trace.
std::string first_lines(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from"));
}

[[noreturn]] void refuse(const std::string& reason, const std::filesystem::path& path) {
  throw Error(ErrorKind::kUnsupported, fmt::format("the model cannot be written as TorchScript: {}", reason),
              path.string(), "Write safetensors or .pth, and use the weights with the model's own code.");
}

// The tree of modules with the same tensors, which is what the tracer looks tensors up in.
torch::jit::Module mirror(const torch::nn::Module& module, const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  torch::jit::Module copy(c10::QualifiedName("__torch__.Net"), unit, /*shouldMangle=*/true);
  copy.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    copy.register_parameter(item.key(), item.value(), /*is_buffer=*/false);
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    copy.register_parameter(item.key(), item.value(), /*is_buffer=*/true);
  for (const auto& child : module.named_children())
    copy.register_module(child.key(), mirror(*child.value(), unit));
  return copy;
}

void require_same(Net& net, const std::string& file, const std::function<torch::Tensor(std::int64_t)>& example,
                  const std::filesystem::path& path) {
  std::istringstream stream(file);
  torch::jit::Module script = torch::jit::load(stream);
  script.eval();
  for (const std::int64_t samples : {1, 2, 5}) {
    const torch::Tensor batch = example(samples);
    const torch::Tensor expected = net.forward(batch.clone());
    const torch::Tensor found = script.forward({batch}).toTensor();
    constexpr double kRelative = 1e-4;
    constexpr double kAbsolute = 1e-5;
    if (!torch::allclose(found, expected, kRelative, kAbsolute))
      refuse(fmt::format("the trace gives something else for {} samples", samples), path);
  }
}

}  // namespace

void export_script(Net& net, const std::function<torch::Tensor(std::int64_t samples)>& example,
                   const std::filesystem::path& path) {
  const torch::NoGradGuard no_grad;
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  net.eval();
  std::string file;
  try {
    const auto unit = std::make_shared<torch::jit::CompilationUnit>();
    torch::jit::Module script = mirror(net, unit);
    const auto forward = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
      return {net.forward(inputs.at(0).toTensor())};
    };
    const auto no_name = [](const torch::Tensor&) -> std::string { return ""; };
    const auto trace = torch::jit::tracer::trace({example(3)}, forward, no_name, /*strict=*/true,
                                                 /*force_outplace=*/false, &script, {"x"});
    const c10::QualifiedName name(*script.type()->name(), "forward");
    script.type()->addMethod(unit->create_function(name, trace.first->graph));
    std::ostringstream stream;
    script.save(stream);
    file = std::move(stream).str();
    require_same(net, file, example, path);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // the tracer and the interpreter throw more than c10::Error
    refuse(first_lines(error), path);
  }
  write_atomically(path, file);
}

}  // namespace muster::model
