// torch's own profiler hooks are used as counters: one kind sees operations with their operands, the other allocations.
// Random numbers are put back afterwards: measuring must not change what is trained.
#include "muster/model/profile.h"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/model/allocation_watch.h"
#include "muster/model/divisible.h"
#include "muster/model/hollow.h"
#include "muster/model/make_model.h"
#include "muster/model/pieces.h"

namespace muster::model {
namespace {

// Batch norm cannot train on one sample.
constexpr std::array<std::int64_t, 2> kBatches = {2, 3};

// torch's random numbers go on as if nothing had been drawn.
class KeptRandomNumbers {
 public:
  KeptRandomNumbers() : state_(at::detail::getDefaultCPUGenerator().get_state()) {}
  ~KeptRandomNumbers() {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state_);
  }
  KeptRandomNumbers(const KeptRandomNumbers&) = delete;
  KeptRandomNumbers& operator=(const KeptRandomNumbers&) = delete;

 private:
  const torch::Tensor state_;
};

torch::Tensor batch_of(const ModelOptions& options, std::int64_t samples) {
  std::vector<std::int64_t> shape{samples};
  shape.insert(shape.end(), options.input_shape.begin(), options.input_shape.end());
  return options.vocabulary ? torch::randint(*options.vocabulary, shape, torch::kInt64) : torch::randn(shape);
}

// "torch::nn::Conv2dImpl" and "muster::model::SyncBatchNorm2dImpl" as people call them.
std::string kind_of(const torch::nn::Module& module) {
  std::string name = module.name();
  name.erase(0, name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name == "SyncBatchNorm2d" ? "BatchNorm2d" : name;
}

// Which operations are looked at; what happens inside one of them is its own business.
bool is_layer(std::string_view operation) {
  static constexpr std::array<std::string_view, 10> kLayers = {
      "aten::convolution", "aten::addmm",      "aten::mm",         "aten::bmm",       "aten::baddbmm",
      "aten::batch_norm",  "aten::layer_norm", "aten::group_norm", "aten::embedding", "aten::mkldnn_rnn_layer"};
  return std::find(kLayers.begin(), kLayers.end(), operation) != kLayers.end();
}

// Products that make one element of the result; 0 for operations that are not counted.
std::int64_t products_per_element(std::string_view operation, c10::ArrayRef<const c10::IValue> inputs) {
  if (operation == "aten::convolution") {
    const torch::Tensor& weight = inputs[1].toTensor();
    return weight.numel() / std::max<std::int64_t>(weight.size(0), 1);
  }
  if (operation == "aten::addmm") return inputs[1].toTensor().size(1);
  if (operation == "aten::mm") return inputs[0].toTensor().size(1);
  if (operation == "aten::bmm") return inputs[0].toTensor().size(2);
  if (operation == "aten::baddbmm") return inputs[1].toTensor().size(2);
  if (operation == "aten::mkldnn_rnn_layer") {  // all positions of a layer at once: what LibTorch 2 makes of an LSTM
    const torch::Tensor& of_input = inputs[1].toTensor();
    const torch::Tensor& of_state = inputs[2].toTensor();
    return (of_input.numel() + of_state.numel()) / std::max<std::int64_t>(of_state.size(1), 1);
  }
  return 0;
}

// The rows of the table while a sample goes through the model. It reports no memory, but torch's allocator takes
// whatever is in the slot for a reporter.
class LayerCounter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*pointer*/, std::int64_t /*size*/, ReportedTotal /*allocated*/,
                         ReportedTotal /*reserved*/, c10::Device /*device*/) override {}
  bool memoryProfilingEnabled() const override { return false; }

  explicit LayerCounter(const torch::nn::Module& net) {
    for (const auto& item : net.named_modules("", /*include_self=*/true)) {
      const torch::nn::Module& module = *item.value();
      for (const torch::Tensor& parameter : module.parameters(/*recurse=*/false)) {
        // Tied weights belong to the first layer that has them.
        if (!owner_.emplace(parameter.data_ptr(), layers_.size()).second) continue;
        parameters_[layers_.size()] += parameter.numel();
      }
      layers_.push_back({.name = item.key(), .kind = kind_of(module)});
    }
    for (const auto& [layer, count] : parameters_)
      layers_[layer].parameters = count;
  }

  static LayerCounter* current() { return static_cast<LayerCounter*>(c10::ThreadLocalDebugInfo::get(profiler_slot())); }

  // The layer whose weight is among `inputs`.
  std::optional<std::size_t> layer_of(c10::ArrayRef<const c10::IValue> inputs) const {
    for (const c10::IValue& input : inputs) {
      if (!input.isTensor() || !input.toTensor().defined() || !input.toTensor().has_storage()) continue;
      const auto found = owner_.find(input.toTensor().data_ptr());
      if (found != owner_.end()) return found->second;
    }
    return std::nullopt;
  }

  void add(std::optional<std::size_t> layer, std::int64_t products, const torch::Tensor& output) {
    if (!layer && products == 0) return;
    const std::size_t row = layer ? *layer : product_of_parts();
    if (std::find(used_.begin(), used_.end(), row) == used_.end()) used_.push_back(row);
    layers_[row].multiply_adds += products * output.numel();
    // Without the batch, which is one sample; products of sequences have positions in front instead.
    if (output.dim() > 0) layers_[row].output = output.sizes().slice(output.size(0) == 1 ? 1 : 0).vec();
    if (layer) last_ = *layer;
  }

  std::int64_t multiply_adds() const {
    std::int64_t all = 0;
    for (const LayerProfile& layer : layers_)
      all += layer.multiply_adds;
    return all;
  }

  std::vector<LayerProfile> table() const {
    std::vector<LayerProfile> rows;
    for (const std::size_t row : used_)
      rows.push_back(layers_[row]);
    for (const auto& [layer, count] : parameters_) {
      if (std::find(used_.begin(), used_.end(), layer) == used_.end()) rows.push_back(layers_[layer]);
    }
    return rows;
  }

  std::size_t depth = 0;  // of operations that are looked at

 private:
  // A row for products without a weight, beside the layer that was computed before them.
  std::size_t product_of_parts() {
    const std::string& before = layers_[last_].name;
    const std::string name = before.substr(0, before.rfind('.') == std::string::npos ? 0 : before.rfind('.') + 1) + "*";
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (layers_[i].name == name) return i;
    }
    layers_.push_back({.name = name, .kind = "product"});
    return layers_.size() - 1;
  }

  std::vector<LayerProfile> layers_;
  std::map<const void*, std::size_t> owner_;  // of each parameter's memory
  std::map<std::size_t, std::int64_t> parameters_;
  std::vector<std::size_t> used_;
  std::size_t last_ = 0;
};

// From the start of an operation, when its inputs are known, to its end, when the result is.
struct Operation final : at::ObserverContext {
  std::optional<std::size_t> layer;
  std::int64_t products = 0;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (!is_layer(function.name())) return nullptr;
  LayerCounter* const counter = LayerCounter::current();
  auto operation = std::make_unique<Operation>();
  if (counter->depth++ == 0) {
    operation->layer = counter->layer_of(function.inputs());
    operation->products = products_per_element(function.name(), function.inputs());
  }
  return operation;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (context == nullptr) return;
  LayerCounter* const counter = LayerCounter::current();
  if (--counter->depth > 0 || function.outputs().empty() || !function.outputs()[0].isTensor()) return;
  const auto* const operation = static_cast<const Operation*>(context);
  counter->add(operation->layer, operation->products, function.outputs()[0].toTensor());
}

std::int64_t most_held(Net& net, const torch::Tensor& batch, std::int64_t limit) {
  const AllocationWatch watch(limit);
  torch::Tensor scores = net.forward(batch);
  scores = scores.reshape({-1, scores.size(-1)});
  torch::nn::functional::cross_entropy(scores, torch::zeros({scores.size(0)}, torch::kInt64)).backward();
  return watch.most();
}

std::int64_t most_held_forward(Net& net, const torch::Tensor& batch, std::int64_t limit) {
  const torch::NoGradGuard no_grad;
  const AllocationWatch watch(limit);
  net.forward(batch);
  return watch.most();
}

// Calls `work` while operations are counted.
template <typename Work>
void counted(const std::shared_ptr<LayerCounter>& counter, const Work& work) {
  const torch::NoGradGuard no_grad;
  const c10::DebugInfoGuard guard(profiler_slot(), counter);
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end).needsInputs(true).needsOutputs(true));
  try {
    work();
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
}

// How many of `pieces` use the tensor of that name; the first of them in `first`.
std::size_t users_of(const std::string& name, const std::vector<Piece>& pieces, std::size_t& first) {
  std::size_t users = 0;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    if (!holds_tensor(pieces[i].holds, name)) continue;
    ++users;
    first = i;
  }
  return users;
}

using MostHeld = std::int64_t (*)(Net&, const torch::Tensor&, std::int64_t);

using Held = std::array<std::int64_t, 2>;

// The line through what two batches hold.
StepMemory line_through(const std::array<std::int64_t, 2>& samples, const Held& held) {
  const std::int64_t sample = std::max<std::int64_t>((held[1] - held[0]) / (samples[1] - samples[0]), 0);
  const std::int64_t fixed = std::max<std::int64_t>(held[0] - sample * samples[0], 0);
  return {.fixed_bytes = static_cast<std::uint64_t>(fixed), .sample_bytes = static_cast<std::uint64_t>(sample)};
}

StepMemory measure(Net& net, const ModelOptions& options, MostHeld most, std::int64_t limit) {
  Held held{};
  for (std::size_t i = 0; i < kBatches.size(); ++i)
    held[i] = most(net, batch_of(options, kBatches[i]), limit);
  return line_through(kBatches, held);
}

// Gradients have their place already, as in training, and statistics are put back.
class AsInTraining {
 public:
  explicit AsInTraining(torch::nn::Module& net) : parameters_(net.parameters()), buffers_(net.buffers()) {
    for (torch::Tensor& parameter : parameters_) {
      gradients_.push_back(parameter.grad());
      if (parameter.requires_grad()) parameter.mutable_grad() = torch::zeros_like(parameter);
    }
    for (const torch::Tensor& buffer : buffers_)
      values_.push_back(buffer.clone());
  }
  ~AsInTraining() {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].mutable_grad() = gradients_[i];
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      buffers_[i].copy_(values_[i]);
  }
  AsInTraining(const AsInTraining&) = delete;
  AsInTraining& operator=(const AsInTraining&) = delete;

 private:
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> buffers_;
  std::vector<torch::Tensor> gradients_;
  std::vector<torch::Tensor> values_;
};

// What one piece keeps for backward, and most of what it holds, in forward and back; `x` becomes what it gives.
std::pair<std::int64_t, std::int64_t> hold_piece(const Piece& piece, torch::Tensor& x) {
  const torch::Tensor input = torch::is_floating_point(x) ? x.detach().requires_grad_(true) : x;
  const AllocationWatch watch;
  torch::Tensor output = piece.forward(input);
  const std::int64_t kept = watch.held();
  x = output.detach();
  if (output.requires_grad()) output.backward(torch::ones_like(output));
  return {kept, watch.most()};
}

}  // namespace

ModelProfile profile_model(const ModelOptions& options) {
  const KeptRandomNumbers kept;
  const std::shared_ptr<Net> net = make_model(options, 1);
  net->eval();
  const auto counter = std::make_shared<LayerCounter>(*net);
  const torch::Tensor batch = batch_of(options, 1);
  counted(counter, [&] { net->forward(batch); });
  ModelProfile profile;
  profile.layers = counter->table();
  for (const LayerProfile& layer : profile.layers) {
    profile.parameters += layer.parameters;
    profile.multiply_adds += layer.multiply_adds;
  }
  profile.parameter_bytes = static_cast<std::uint64_t>(profile.parameters) * sizeof(float);
  for (const torch::Tensor& buffer : net->buffers())
    profile.buffer_bytes += buffer.nbytes();
  return profile;
}

bool holds_tensor(const std::vector<std::string>& holds, const std::string& name) {
  return std::any_of(holds.begin(), holds.end(), [&](const std::string& held) {
    return name.starts_with(held) && (name.size() == held.size() || name[held.size()] == '.');
  });
}

std::vector<PieceProfile> profile_pieces(Net& net, const ModelOptions& options) {
  return profile_pieces(net, net.pieces(), options);
}

std::vector<PieceProfile> profile_pieces(Net& net, const std::vector<Piece>& pieces, const ModelOptions& options) {
  const KeptRandomNumbers kept;
  return profile_pieces(static_cast<torch::nn::Module&>(net), pieces, batch_of(options, 2));
}

std::vector<PieceProfile> profile_pieces(torch::nn::Module& net, const std::vector<Piece>& pieces,
                                         const torch::Tensor& batch) {
  std::vector<PieceProfile> rows;
  for (const Piece& piece : pieces)
    rows.push_back({.name = piece.name});
  if (pieces.empty()) return rows;
  std::size_t first = 0;
  const auto* const divisible = dynamic_cast<const Divisible*>(&net);
  const std::vector<Split> splits = divisible != nullptr ? divisible->splits() : std::vector<Split>();
  std::set<const void*> seen;  // tied tensors count where they are met first
  const auto is_first = [&](const torch::Tensor& tensor) { return seen.insert(tensor.unsafeGetTensorImpl()).second; };
  for (const auto& item : net.named_parameters()) {
    if (!is_first(item.value())) continue;
    if (users_of(item.key(), pieces, first) == 0)
      throw Error(ErrorKind::kUnsupported, fmt::format("parameter {} belongs to no piece of the model", item.key()));
    rows[first].parameter_bytes += item.value().nbytes();
    if (std::ranges::find(splits, item.key(), &Split::name) != splits.end())
      rows[first].divided_bytes += item.value().nbytes();
  }
  for (const auto& item : net.named_buffers()) {
    if (!is_first(item.value())) continue;
    if (users_of(item.key(), pieces, first) != 1)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("buffer {} belongs to no piece of the model, or to several", item.key()));
    rows[first].buffer_bytes += item.value().nbytes();
  }
  const KeptRandomNumbers kept;
  net.eval();
  const auto counter = std::make_shared<LayerCounter>(net);
  const std::int64_t samples = batch.size(0);
  torch::Tensor x = batch;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t before = counter->multiply_adds();
    counted(counter, [&] { x = pieces[i].forward(x); });
    if (x.dim() == 0 || x.size(0) != samples || x.scalar_type() != torch::kFloat32)
      throw Error(ErrorKind::kUnsupported, fmt::format("piece {} does not give a batch of fp32 rows", pieces[i].name));
    rows[i].multiply_adds = (counter->multiply_adds() - before) / samples;
    rows[i].output_bytes = x.nbytes() / static_cast<std::size_t>(samples);
  }
  net.train();
  return rows;
}

std::vector<PieceMemory> measure_pieces(torch::nn::Module& net, const std::vector<Piece>& pieces,
                                        const torch::Tensor& batch) {
  const KeptRandomNumbers kept_numbers;
  const AsInTraining training(net);
  net.train();
  const std::array<std::int64_t, 2> samples{2 * batch.size(0), 4 * batch.size(0)};
  std::vector<Held> kept(pieces.size());
  std::vector<Held> most(pieces.size());
  for (std::size_t size = 0; size < samples.size(); ++size) {
    std::vector<std::int64_t> times(static_cast<std::size_t>(batch.dim()), 1);
    times.front() = samples[size] / batch.size(0);
    torch::Tensor x = batch.repeat(times);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      std::tie(kept[i][size], most[i][size]) = hold_piece(pieces[i], x);
  }
  std::vector<PieceMemory> all;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    all.push_back({line_through(samples, kept[i]), line_through(samples, most[i])});
  return all;
}

std::vector<PieceMemory> measure_pieces(Net& net, const std::vector<Piece>& pieces, const ModelOptions& options) {
  const KeptRandomNumbers kept;
  return measure_pieces(net, pieces, batch_of(options, 1));
}

StepMemory measure_step_memory(const ModelOptions& options) {
  return measure_model_memory(options, static_cast<std::uint64_t>(AllocationWatch::kNoLimit)).step;
}

ModelMemory measure_model_memory(const ModelOptions& options, std::uint64_t most_bytes, bool hollow) {
  const KeptRandomNumbers kept;
  auto limit = static_cast<std::int64_t>(std::min(most_bytes, static_cast<std::uint64_t>(AllocationWatch::kNoLimit)));
  std::int64_t held = 0;
  std::shared_ptr<Net> net;
  {
    const AllocationWatch watch(limit);
    const auto without_memory = hollow ? std::make_unique<HollowTensors>() : nullptr;
    net = make_model(options, 1);
    net->train();
    // As in training, gradients have their place already.
    for (torch::Tensor& parameter : net->parameters())
      parameter.mutable_grad() = torch::zeros_like(parameter);
    held = watch.held();
  }
  ModelMemory memory;
  for (const torch::Tensor& parameter : net->parameters())
    memory.parameter_bytes += parameter.nbytes();
  for (const torch::Tensor& buffer : net->buffers())
    memory.buffer_bytes += buffer.nbytes();
  if (limit != AllocationWatch::kNoLimit) limit -= std::min(limit, held);
  memory.step = measure(*net, options, most_held, limit);
  net->eval();
  memory.forward = measure(*net, options, most_held_forward, limit);
  return memory;
}

}  // namespace muster::model
