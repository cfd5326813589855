// The table of the zoo: each model by its name, with what a job may say about it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/model/net.h"
#include "muster/model/registry.h"
#include "muster/model/zoo/layers.h"

namespace muster::zoo {

struct Row {
  const char* name;
  const char* help;
  model::ModelOptions typical;
  std::vector<std::string> options;
  std::shared_ptr<model::Net> (*make)(const model::ModelOptions&);
};

// In the order in which people are shown them.
const std::vector<Row>& rows();
// The row of `name`, or of the pattern that it follows; null: there is none.
const Row* find_row(const std::string& name);

// Throws kInvalidInput for an option that is given and that `row` does not have, and for norm groups without group
// norm.
void refuse_other_options(const model::ModelOptions& options, const std::vector<std::string>& known);

// What `options` say of the layers that convolutional models share. Throws kInvalidInput.
LayerOptions layers_of(const model::ModelOptions& options);

}  // namespace muster::zoo
