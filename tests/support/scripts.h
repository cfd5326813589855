// TorchScript files made in C++, as torch.jit.script() makes them in Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <torch/script.h>
#include <torch/torch.h>

namespace muster::testing {

// An empty script module with the flag that train() and eval() set.
inline torch::jit::Module script_module(const std::string& name) {
  torch::jit::Module module(name);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

inline torch::jit::Module script_linear(const std::string& name, std::int64_t inputs, std::int64_t outputs) {
  torch::jit::Module module = script_module(name);
  module.register_parameter("weight", torch::randn({outputs, inputs}).mul_(0.1).requires_grad_(), false);
  module.register_parameter("bias", torch::zeros({outputs}).requires_grad_(), false);
  module.define("def forward(self, x: Tensor) -> Tensor:\n    return torch.linear(x, self.weight, self.bias)\n");
  return module;
}

// A classifier of flattened samples with everything that makes bits hard to keep: BatchNorm (whose count is a new
// tensor each time, as older versions of LibTorch script it) and a dropout that the executor, where it optimises, draws
// in another way.
inline torch::jit::Module script_classifier(std::int64_t inputs, std::int64_t classes, double dropout) {
  torch::jit::Module norm = script_module("Norm");
  norm.register_parameter("weight", torch::ones({16}).requires_grad_(), false);
  norm.register_parameter("bias", torch::zeros({16}).requires_grad_(), false);
  norm.register_buffer("running_mean", torch::zeros({16}));
  norm.register_buffer("running_var", torch::ones({16}));
  norm.register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
  norm.define(R"(
def forward(self, x: Tensor) -> Tensor:
    if self.training:
        self.num_batches_tracked = self.num_batches_tracked + 1
    return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-5, False)
)");
  torch::jit::Module net = script_module("Classifier");
  net.register_module("first", script_linear("First", inputs, 16));
  net.register_module("norm", norm);
  net.register_module("second", script_linear("Second", 16, classes));
  net.register_attribute("p", c10::FloatType::get(), dropout);
  net.define(R"(
def forward(self, x: Tensor) -> Tensor:
    hidden = torch.relu(self.norm.forward(self.first.forward(torch.flatten(x, 1))))
    if self.training:
        hidden = torch.dropout(hidden, self.p, True)
    return self.second.forward(hidden)
)");
  return net;
}

// Saves it with weights that are a function of `seed`.
inline void save_script_classifier(const std::filesystem::path& path, std::int64_t inputs, std::int64_t classes,
                                   double dropout, std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  script_classifier(inputs, classes, dropout).save(path.string());
}

}  // namespace muster::testing
