// A model of your own for `muster train`, with no program around it: build this file as a shared object (it links
// muster::headers alone) and name it in a job:
//
//   [model]
//   library = "libown_library.so"
//   name = "highway"
//   depth = 3
//   [model.options]
//   gate_bias = -2.0
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/model/user_models.h"

namespace {

// A highway network (Srivastava et al., 2015): each layer lets a learned part of its input pass unchanged.
class Highway final : public muster::model::Net {
 public:
  Highway(std::int64_t inputs, std::int64_t width, std::int64_t depth, std::int64_t classes, double gate_bias)
      : first_(register_module("first", torch::nn::Linear(inputs, width))),
        last_(register_module("last", torch::nn::Linear(width, classes))) {
    for (std::int64_t i = 0; i < depth; ++i) {
      layers_.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(width, width)));
      gates_.push_back(register_module("gate" + std::to_string(i), torch::nn::Linear(width, width)));
      torch::nn::init::constant_(gates_.back()->bias, gate_bias);
    }
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(first_(x.flatten(1)));
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const torch::Tensor gate = torch::sigmoid(gates_[i](x));
      x = gate * torch::relu(layers_[i](x)) + (1 - gate) * x;
    }
    return last_(x);
  }

 private:
  torch::nn::Linear first_;
  torch::nn::Linear last_;
  std::vector<torch::nn::Linear> layers_;
  std::vector<torch::nn::Linear> gates_;
};

// Gets what the data says (input_shape, classes, ...), what [model] says (width, depth, dropout, ...) and, in `own`,
// what [model.options] says.
std::shared_ptr<muster::model::Net> make_highway(const muster::model::ModelOptions& options) {
  if (options.dropout) throw std::invalid_argument("there is no option dropout");
  std::int64_t inputs = 1;
  for (const std::int64_t extent : options.input_shape)
    inputs *= extent;
  return std::make_shared<Highway>(inputs, options.width.value_or(64), options.depth.value_or(2), options.classes,
                                   options.own.get<double>("gate_bias"));
}

}  // namespace

// The last braces are the model's own keys: of [model.options], checked before make_highway is called.
MUSTER_MODELS({"highway",
               "highway network; width = 64, depth = 2",
               make_highway,
               {{"gate_bias", -1.0, "Of gates at first; the lower, the more of the input passes.", -10, 10}}})
