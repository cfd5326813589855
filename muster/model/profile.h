// What a model costs: parameters, multiply-adds, the memory of a training step, and a table of its layers.
//
// Nothing is looked up: a sample goes through the model while torch reports each operation (products are counted by the
// extents of their operands, and belong to the layer whose weight they read), and two small batches are trained on
// while its allocator reports. Norms, activations and pooling count no multiply-adds, as in published figures. No torch
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/model/registry.h"

namespace muster::model {

class Net;
struct Piece;

struct LayerProfile {
  std::string name =
      {};  // "layer1.0.conv1"; with a "*" at its end: products of what the layers in it compute (attention)
  std::string kind = {};  // "Conv2d"
  std::vector<std::int64_t> output =
      {};  // of one sample, as the layer leaves it; empty for parameters used without a layer
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;
};

struct ModelProfile {
  std::int64_t parameters = 0;
  std::int64_t multiply_adds = 0;     // of one sample
  std::uint64_t parameter_bytes = 0;  // and so much again for gradients
  std::uint64_t buffer_bytes = 0;
  std::vector<LayerProfile> layers;  // in the order in which they are first used; parameters used by none at the end
};

// What a piece of a model (net.h) costs, for those who cut it.
struct PieceProfile {
  std::string name = {};
  std::int64_t multiply_adds = 0;     // of one sample
  std::uint64_t parameter_bytes = 0;  // tied weights count at the first piece that uses them
  std::uint64_t divided_bytes = 0;    // of these: what a team divides (divisible.h)
  std::uint64_t buffer_bytes = 0;
  std::uint64_t output_bytes = 0;  // of one sample
};

// What forward and backward hold beside parameters, gradients and buffers when they hold most.
struct StepMemory {
  std::uint64_t fixed_bytes = 0;
  std::uint64_t sample_bytes = 0;
  std::uint64_t of(std::uint64_t batch) const { return fixed_bytes + sample_bytes * batch; }
};

// What a piece holds beside parameters, gradients and buffers.
struct PieceMemory {
  StepMemory kept = {};  // between its forward and its backward, what it gives included
  StepMemory most = {};  // in the course of both
};

// What a model's memory is made of, whatever the batch.
struct ModelMemory {
  std::uint64_t parameter_bytes = 0;
  std::uint64_t buffer_bytes = 0;
  StepMemory step = {};     // of forward and backward
  StepMemory forward = {};  // of forward alone, as in an evaluation
};

// All build the model by itself and leave torch's random numbers as they were. All throw as make_model().
ModelProfile profile_model(const ModelOptions& options);
// Of the pieces of `net`, which was made from `options`, by sending a sample through them; empty for models that cannot
// be cut. The model trains afterwards, as before. Throws kUnsupported, naming what cannot be cut: parameters and
// buffers of no piece, buffers of several, activations that are no batch of fp32 rows.
std::vector<PieceProfile> profile_pieces(Net& net, const ModelOptions& options);
// The same of pieces that the caller has made of it.
std::vector<PieceProfile> profile_pieces(Net& net, const std::vector<Piece>& pieces, const ModelOptions& options);
// By training on a few samples. A model without pieces has none.
std::vector<PieceMemory> measure_pieces(Net& net, const std::vector<Piece>& pieces, const ModelOptions& options);
// Whether a piece that `holds` these (net.h) uses the parameter or buffer of this name.
bool holds_tensor(const std::vector<std::string>& holds, const std::string& name);

// Takes about the time of training on five samples. What torch's allocator gives out is counted, not the scratch memory
// of the libraries below it.
StepMemory measure_step_memory(const ModelOptions& options);
// Throws kResource, before the memory is used, as soon as the model and its small batches hold more than `most_bytes`.
// `hollow`: without memory for its parameters and their gradients (hollow.h), which are counted all the same.
ModelMemory measure_model_memory(const ModelOptions& options, std::uint64_t most_bytes, bool hollow = false);

}  // namespace muster::model
