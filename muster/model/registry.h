// The models a job can name. No torch here: make_model.h builds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::model {

struct ModelOptions {
  std::string name = {};
  std::string script = {};                     // instead of a name: a TorchScript file
  std::vector<std::int64_t> input_shape = {};  // of one sample: {channels, height, width}, or any for mlp
  std::int64_t classes = 10;
  // Empty: the model's own. A model that has no such option refuses it.
  std::optional<std::vector<std::int64_t>> hidden = {};
  std::optional<double> dropout = {};
  // Set when samples are sequences of token numbers below it, input_shape {positions}: what language models need.
  std::optional<std::int64_t> vocabulary = {};
};

struct ModelEntry {
  std::string name;
  std::string help;
};

// Every model, in the order of the table.
std::vector<ModelEntry> models();

}  // namespace muster::model
