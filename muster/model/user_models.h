// Models of your own in a shared object, which `muster train` loads: [model] library = "libmine.so", name = "mine".
//
// A source file with classes derived from Net and one line at its end, built as a shared object against muster::muster:
//
//   std::shared_ptr<muster::model::Net> make_mine(const muster::model::ModelOptions& options) { ... }
//   MUSTER_MODELS({"mine", "two layers of my own", make_mine})
//
// Several models are several braces. A model with options of its own, the keys of [model.options], lists them last:
//
//   MUSTER_MODELS({"mine", "two layers of my own", make_mine, {{"bend", 0.5, "How far the first layer bends.", 0, 1}}})
//
// and asks for them by options.own.get<double>("bend"). make is called with the job's options and what the data says,
// after torch's generator was seeded from the job; it may throw std::exception (muster::Error keeps its kind).
// examples/own_library.cpp is a whole one. Such a file is code: load only files that you would also run.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <vector>

#include <torch/version.h>

#include "muster/model/net.h"
#include "muster/model/registry.h"

namespace muster::model {

struct UserModel {
  const char* name;
  const char* help;
  std::shared_ptr<Net> (*make)(const ModelOptions& options);
  std::vector<OwnKey> keys = {};
};

// What a library tells about itself. The program looks at the first members before it trusts the rest.
struct UserModels {
  int format;                 // kUserModelFormat of the headers it was built with
  std::size_t options_bytes;  // sizeof(ModelOptions): another version of Muster has other options
  const char* torch;          // version of LibTorch
  const UserModel* models;
  std::size_t count;
};

constexpr int kUserModelFormat = 2;
constexpr const char* kUserModelSymbol = "muster_user_models";

}  // namespace muster::model

// A library has this once.
#define MUSTER_MODELS(...)                                                                                         \
  extern "C" __attribute__((visibility("default"))) const ::muster::model::UserModels* muster_user_models() {      \
    static const ::muster::model::UserModel models[] = {__VA_ARGS__};                                              \
    static const ::muster::model::UserModels library{::muster::model::kUserModelFormat,                            \
                                                     sizeof(::muster::model::ModelOptions), TORCH_VERSION, models, \
                                                     std::size(models)};                                           \
    return &library;                                                                                               \
  }
