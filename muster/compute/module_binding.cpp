// Hooks take each gradient into the lane's area as backward makes it, and give LibTorch a view of that memory to keep:
// nothing is copied on the usual way. collect() takes what came another way.
#include "muster/compute/module_binding.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/error.h"

namespace muster::compute {
namespace {

std::optional<model::Dtype> dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return model::Dtype::kF32;
    case torch::kFloat64:
      return model::Dtype::kF64;
    case torch::kBFloat16:
      return model::Dtype::kBf16;
    case torch::kInt64:
      return model::Dtype::kI64;
    case torch::kInt32:
      return model::Dtype::kI32;
    case torch::kInt16:
      return model::Dtype::kI16;
    case torch::kInt8:
      return model::Dtype::kI8;
    case torch::kUInt8:
      return model::Dtype::kU8;
    case torch::kBool:
      return model::Dtype::kBool;
    default:
      return std::nullopt;
  }
}

bool is_plain(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == torch::kStrided;
}

bool is_trainable_type(torch::ScalarType type) {
  return type == torch::kFloat32 || type == torch::kFloat64 || type == torch::kBFloat16;
}

constexpr std::size_t kAlignment = 64;

void copy_bytes(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

struct ModuleBinding::Capture {
  LaneArea area;  // of the lane in work
  bool active = false;
  std::vector<Place> places;  // per tensor: where in the area
  std::vector<bool> taken;    // per tensor: its gradient is in the area
  std::vector<bool> added;    // per tensor: to what is there, by collect()
  std::function<void(std::size_t)> ready;
  std::optional<std::size_t> changed;  // a tensor that got more after it was told to be ready
};

ModuleBinding::ModuleBinding(std::shared_ptr<torch::nn::Module> module)
    : module_(std::move(module)), capture_(std::make_shared<Capture>()) {
  std::vector<model::TensorInfo> registered;
  std::vector<torch::Tensor> in_order;
  std::set<const void*> seen;
  for (const auto& item : module_->named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (!is_plain(tensor) || !is_trainable_type(tensor.scalar_type())) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("parameter {} is not a dense tensor of float, double or bfloat16 on the CPU", item.key()),
                  {}, "Convert it with module->to(torch::kFloat32) before synchronize().");
    }
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    registered.push_back({item.key(), tensor.sizes().vec(), tensor.requires_grad()});
    in_order.push_back(tensor);
  }
  if (registered.empty()) throw Error(ErrorKind::kUnsupported, "the model has no parameters");
  layout_ = model::FlatLayout(registered);
  for (const model::TensorSlot& slot : layout_.tensors())
    capture_->places.push_back(whole(slot));
  parameters_.assign(in_order.rbegin(), in_order.rend());
  for (const torch::Tensor& parameter : parameters_)
    types_.push_back(parameter.scalar_type());

  for (const auto& item : module_->named_buffers()) {
    const torch::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    const std::optional<model::Dtype> dtype = dtype_of(tensor);
    if (!is_plain(tensor) || !tensor.is_contiguous() || !dtype) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("buffer {} is not a contiguous CPU tensor of a known type", item.key()));
    }
    buffer_layout_.add(item.key(), *dtype, tensor.sizes().vec(), tensor.nbytes());
    buffers_.push_back(tensor);
  }
  add_hooks();
}

ModuleBinding::~ModuleBinding() {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (hooks_[i]) parameters_[i].remove_hook(*hooks_[i]);
}

void ModuleBinding::add_hooks() {
  hooks_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (hooks_[i] || !parameters_[i].requires_grad()) continue;
    // A hook sees the whole gradient of one backward, tied uses already added, before LibTorch stores it. What it
    // returns is a fresh view of the area, which LibTorch takes over as grad() without a copy, unless it has gaps: then
    // collect() takes what LibTorch stores.
    hooks_[i] = parameters_[i].register_hook([capture = capture_, i](const torch::Tensor& gradient) {
      if (capture->active && capture->ready && capture->taken[i]) capture->changed = i;
      // A second backward of the lane is added by LibTorch to what the first left; with create_graph gradients are
      // part of a graph and stay where they are until collect().
      const Place& to = capture->places[i];
      if (!capture->active || capture->taken[i] || capture->added[i] || torch::GradMode::is_enabled() ||
          gradient.layout() != torch::kStrided || gradient.scalar_type() != torch::kFloat32 || !to.is_contiguous) {
        return gradient;
      }
      capture->taken[i] = true;
      torch::Tensor place = to.in(capture->area.gradient.data());
      place.copy_(gradient);
      if (capture->ready) {
        capture->area.present[i] = 1;
        capture->ready(i);
      }
      return place;
    });
  }
}

torch::Tensor ModuleBinding::Place::in(float* flat) const {
  return torch::from_blob(flat + offset, sizes, strides, torch::kFloat32);
}

ModuleBinding::Place ModuleBinding::whole(const model::TensorSlot& slot) {
  Place place{slot.offset, slot.count, slot.shape, slot.shape};
  std::int64_t stride = 1;
  for (std::size_t i = slot.shape.size(); i-- > 0; stride *= slot.shape[i])
    place.strides[i] = stride;
  return place;
}

std::vector<std::pair<std::string, std::string>> ModuleBinding::converted() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (std::size_t i = 0; i < types_.size(); ++i)
    if (!is_master(i)) names.emplace_back(layout_.tensors()[i].name, torch::toString(types_[i]));
  return names;
}

void ModuleBinding::read_parameters(std::span<float> flat) const {
  MUSTER_CHECK(flat.size() == layout_.size() && !shows_shards_, "a flat array of the layout's size, and no shards");
  std::uint64_t end = 0;  // of the tensors so far; between them is nothing
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const model::TensorSlot& slot = layout_.tensors()[i];
    std::fill(flat.begin() + static_cast<std::ptrdiff_t>(end), flat.begin() + static_cast<std::ptrdiff_t>(slot.offset),
              0.0F);
    end = slot.offset + slot.count;
    const torch::Tensor values = parameters_[i].detach().to(torch::kFloat32).contiguous();
    float* const place = flat.data() + slot.offset;
    if (values.data_ptr<float>() != place) copy_bytes(values.data_ptr<float>(), place, values.nbytes());
  }
  std::fill(flat.begin() + static_cast<std::ptrdiff_t>(end), flat.end(), 0.0F);
}

void ModuleBinding::read_buffers(std::span<std::byte> bytes) const {
  MUSTER_CHECK(!shows_shards_, "not of shards");
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferSlot& slot = buffer_layout_.slots[i];
    copy_bytes(buffers_[i].data_ptr(), bytes.data() + slot.offset, slot.bytes);
  }
}

void ModuleBinding::read_used_buffers(std::span<std::byte> bytes) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferSlot& slot = buffer_layout_.slots[i];
    if (!uses_.buffers.empty() && uses_.buffers[i] == 0) continue;
    const std::size_t before = shows_shards_ && shards_.buffers[i]
                                   ? static_cast<std::size_t>(shards_.buffers[i]->offset) * buffers_[i].element_size()
                                   : 0;
    copy_bytes(buffers_[i].data_ptr(), bytes.data() + slot.offset + before, buffers_[i].nbytes());
  }
}

void ModuleBinding::write_buffers(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const BufferSlot& slot = buffer_layout_.slots[i];
    const torch::Tensor& whole = shows_shards_ ? whole_buffers_[i] : buffers_[i];
    copy_bytes(bytes.data() + slot.offset, whole.data_ptr(), slot.bytes);
  }
}

void ModuleBinding::attach(std::array<std::span<const float>, 2> versions, std::shared_ptr<void> owner) {
  std::vector<GuardedRange> guarded;
  std::vector<std::size_t> places;  // of converted parameters in their memory
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    places.push_back(bytes);
    const std::size_t wanted = is_master(i) ? 0 : layout_.tensors()[i].count * torch::elementSize(types_[i]);
    bytes += (wanted + kAlignment - 1) / kAlignment * kAlignment;
  }
  copies_ = bytes > 0 ? std::make_shared<ReadOnlyPages>(bytes) : nullptr;
  for (std::size_t index = 0; index < versions.size(); ++index) {
    MUSTER_CHECK(versions[index].size() == layout_.size(), "a flat array of the layout's size");
    views_[index].clear();
    masters_[index].clear();
    for (std::size_t i = 0; i < types_.size(); ++i) {
      const model::TensorSlot& slot = layout_.tensors()[i];
      // LibTorch has no tensors that cannot be written; where the memory cannot, writing ends the process, and the
      // guard says why.
      const torch::Tensor master = torch::from_blob(
          const_cast<float*>(versions[index].data()) + slot.offset, slot.shape, [owner](void*) {}, torch::kFloat32);
      std::span<const std::byte> memory = std::as_bytes(versions[index].subspan(slot.offset, slot.count));
      if (is_master(i)) {
        views_[index].push_back(master);
        masters_[index].emplace_back();
      } else {
        memory = copies_->bytes().subspan(places[i], slot.count * torch::elementSize(types_[i]));
        views_[index].push_back(torch::from_blob(
            const_cast<std::byte*>(memory.data()), slot.shape, [copies = copies_](void*) {}, types_[i]));
        masters_[index].push_back(master);
      }
      guarded.push_back({memory, slot.name});
    }
  }
  guard_.emplace(std::move(guarded));
  shown_ = -1;
}

void ModuleBinding::show(int index) {
  if (copies_) {
    const torch::NoGradGuard no_grad;
    const auto version = static_cast<std::size_t>(index);
    copies_->write([&] {
      for (std::size_t i = 0; i < types_.size(); ++i)
        if (!is_master(i)) views_[version][i].copy_(masters_[version][i]);
    });
  }
  if (index == shown_) return;
  MUSTER_CHECK(views_[static_cast<std::size_t>(index)].size() == parameters_.size(), "attach() comes before show()");
  shown_ = index;
  point_at(shown_views());
}

const std::vector<torch::Tensor>& ModuleBinding::shown_views() const {
  return (shows_shards_ ? shard_views_ : views_)[static_cast<std::size_t>(shown_)];
}

void ModuleBinding::set_shards(Shards shards) {
  MUSTER_CHECK(
      !shows_shards_ && shards.tensors.size() == parameters_.size() && shards.buffers.size() == buffers_.size(),
      "a shard, or none, of each tensor");
  for (std::size_t i = 0; i < types_.size(); ++i)
    if (shards.tensors[i] && !is_master(i))
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("parameter {} is split, and not of float32", layout_.tensors()[i].name), "parallel.mesh",
                  "Tensor parallelism takes float32 parameters only.");
  shards_ = std::move(shards);
  shard_places_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Place place = whole(layout_.tensors()[i]);
    if (const std::optional<model::Shard>& shard = shards_.tensors[i])
      place = {place.offset + static_cast<std::uint64_t>(shard->offset), static_cast<std::uint64_t>(shard->count()),
               shard->sizes, shard->strides, shard->is_contiguous()};
    shard_places_.push_back(std::move(place));
  }
  for (std::size_t index = 0; index < views_.size(); ++index) {
    shard_views_[index].clear();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& view = views_[index][i];
      const std::optional<model::Shard>& shard = shards_.tensors[i];
      shard_views_[index].push_back(shard ? view.as_strided(shard->sizes, shard->strides, shard->offset) : view);
    }
  }
}

void ModuleBinding::show_shards(bool shards) {
  if (shards == shows_shards_) return;
  MUSTER_CHECK(shown_ >= 0 && !capture_->active && shard_places_.size() == parameters_.size(),
               "set_shards() comes before show_shards()");
  shows_shards_ = shards;
  point_at(shown_views());
  if (shards) whole_buffers_.clear();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (shards) whole_buffers_.push_back(buffers_[i].detach());
    const std::optional<model::Shard>& shard = shards_.buffers[i];
    if (!shard) continue;
    const torch::Tensor& whole = whole_buffers_[i];
    buffers_[i].set_data(shards ? whole.as_strided(shard->sizes, shard->strides, whole.storage_offset() + shard->offset)
                                : whole);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    capture_->places[i] = shards ? shard_places_[i] : whole(layout_.tensors()[i]);
}

void ModuleBinding::point_at(const std::vector<torch::Tensor>& views) {
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].set_data(views[i]);
}

void ModuleBinding::change(std::span<float> parameters, std::span<std::byte> buffers,
                           const std::function<void()>& change) {
  MUSTER_CHECK(shown_ >= 0 && parameters.size() == layout_.size() && !shows_shards_,
               "attach() and show() come before change()");
  std::vector<torch::Tensor> masters;
  std::vector<torch::Tensor> views;
  std::vector<torch::Tensor> before;
  for (std::size_t i = 0; i < types_.size(); ++i) {
    const model::TensorSlot& slot = layout_.tensors()[i];
    masters.push_back(torch::from_blob(parameters.data() + slot.offset, slot.shape, torch::kFloat32));
    views.push_back(is_master(i) ? masters.back() : masters.back().to(types_[i]));
    before.push_back(is_master(i) ? torch::Tensor() : views.back().clone());
  }
  write_buffers(buffers);
  point_at(views);
  try {
    change();
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const bool kept = parameters_[i].defined() && parameters_[i].is_contiguous() &&
                        parameters_[i].sizes() == views[i].sizes() && parameters_[i].data_ptr() == views[i].data_ptr();
      if (!kept)
        throw Error(ErrorKind::kCompute,
                    fmt::format("parameter {} was replaced where it may only be written to", layout_.tensors()[i].name),
                    "after_commit", "Write into it: copy_(), mul_(), clamp_() and the like.");
    }
    // What was left alone keeps the digits that only the master has.
    for (std::size_t i = 0; i < types_.size(); ++i)
      if (!is_master(i))
        masters[i].copy_(torch::where(views[i].eq(before[i]), masters[i], views[i].to(torch::kFloat32)));
    read_buffers(buffers);
  } catch (...) {
    point_at(views_[static_cast<std::size_t>(shown_)]);
    throw;
  }
  point_at(views_[static_cast<std::size_t>(shown_)]);
}

void ModuleBinding::begin_lane(const LaneArea& area, std::function<void(std::size_t tensor)> ready) {
  for (torch::Tensor& parameter : parameters_)
    parameter.mutable_grad() = torch::Tensor();
  add_hooks();
  capture_->area = area;
  capture_->ready = std::move(ready);
  capture_->active = true;
  capture_->taken.assign(parameters_.size(), false);
  capture_->added.assign(parameters_.size(), false);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    capture_->added[i] = use_of(i) != Use::kWhole;
  capture_->changed.reset();
}

void ModuleBinding::abandon_lane() {
  if (!capture_->active) return;
  for (torch::Tensor& parameter : parameters_)
    parameter.mutable_grad() = torch::Tensor();
  capture_->active = false;
}

void ModuleBinding::collect() {
  MUSTER_CHECK(capture_->active, "begin_lane() comes before collect()");
  capture_->active = false;
  if (capture_->changed) {
    throw Error(
        ErrorKind::kInvalidInput,
        fmt::format("parameter {} got a second gradient in a lane, when the first was being summed with others'",
                    layout_.tensors()[*capture_->changed].name),
        {}, "Set parallel.exchange_early = false (shared_sync) or parallel.overlap = false (all_reduce).");
  }
  const LaneArea& area = capture_->area;
  const torch::NoGradGuard no_grad;
  const std::vector<torch::Tensor>& views = shown_views();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Place& to = capture_->places[i];
    if (parameters_[i].data_ptr() != views[i].data_ptr()) {
      throw Error(ErrorKind::kCompute,
                  fmt::format("parameter {} left Muster's memory during the lane", layout_.tensors()[i].name), {},
                  "Do not call to(), set_data() or load on the model inside the loop.");
    }
    // Others may have it in work already.
    if (capture_->ready && capture_->taken[i]) {
      parameters_[i].mutable_grad() = torch::Tensor();
      continue;
    }
    if (use_of(i) == Use::kNone) {
      parameters_[i].mutable_grad() = torch::Tensor();
      continue;
    }
    const torch::Tensor& gradient = parameters_[i].grad();
    float* const place = area.gradient.data() + to.offset;
    if (use_of(i) == Use::kRest && area.present[i] != 0) {
      // The sum of two: the same bits in either order, so those of one process that has both.
      if (gradient.defined()) to.in(area.gradient.data()).add_(gradient.is_sparse() ? gradient.to_dense() : gradient);
      parameters_[i].mutable_grad() = torch::Tensor();
      continue;
    }
    area.present[i] = gradient.defined() ? 1 : 0;
    if (!gradient.defined()) continue;
    if (to.is_contiguous && gradient.layout() == torch::kStrided && gradient.is_contiguous() &&
        gradient.scalar_type() == torch::kFloat32) {
      if (gradient.data_ptr<float>() != place) copy_bytes(gradient.data_ptr<float>(), place, to.count * sizeof(float));
    } else {
      to.in(area.gradient.data()).copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    }
    parameters_[i].mutable_grad() = torch::Tensor();
  }
}

}  // namespace muster::compute
