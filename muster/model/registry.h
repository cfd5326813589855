// The models a job can name. No torch here: make_model.h builds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/own_options.h"

namespace muster::model {

struct ModelOptions {
  std::string name = {};
  std::string script = {};          // instead of a name: a TorchScript file
  std::string library = {};         // a shared object with models of the user's own, of which `name` is one
  std::string library_sha256 = {};  // of the file it has to be; empty: any
  // What the data says.
  std::vector<std::int64_t> input_shape = {};  // of one sample: {channels, height, width}, or any for mlp
  std::int64_t classes = 10;                   // width of a row of scores; of a regression the number of values
  bool each_position = false;                  // a row of scores for each position of a sequence, not one a sample
  // Set when samples are sequences of token numbers below it, input_shape {positions}: what language models need.
  std::optional<std::int64_t> vocabulary = {};
  std::vector<std::int64_t> columns = {};  // of a table, as data::SampleSpec::columns
  // What the user says. Empty: the model's own. A model that has no such option refuses it.
  std::optional<std::vector<std::int64_t>> hidden = {};
  std::optional<double> dropout = {};
  std::optional<std::string> activation = {};  // "relu", "leaky_relu"
  std::optional<std::string> norm = {};        // "batch", "group"
  std::optional<std::int64_t> groups = {};     // of group norm
  std::optional<std::int64_t> width = {};
  std::optional<std::int64_t> depth = {};
  std::optional<std::int64_t> heads = {};
  std::optional<std::int64_t> embedding = {};
  bool recompute = false;  // keep less for backward, and compute it again (recompute.h)
  OwnOptions own = {};     // of a model of a library: what [model.options] says
};

struct ModelEntry {
  std::string name;
  std::string help;
  ModelOptions typical;              // what it is usually given: for benchmarks, tests and `muster model list`
  std::vector<std::string> options;  // those of ModelOptions that it has
};

// Every model, in the order of the table. Names that are a pattern (wrn-D-K) stand here with one example.
std::vector<ModelEntry> models();
// The entry of `name`, patterns included, with `name` as its name. Throws kInvalidInput that says the nearest and all.
ModelEntry find_model(const std::string& name);

}  // namespace muster::model
