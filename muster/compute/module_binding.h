// Puts a LibTorch model onto flat memory: its parameters become views into the current version, its gradients land in a
// lane area, its buffers are loaded before and stored after each lane.
//
// Parameters of type double or bfloat16 are fp32 in flat memory, which is what optimizers, files and other workers see
// (a master copy); the module computes with converted ones, which this process keeps for itself and renews with each
// version.
//
// This is the one adapter between tensors and spans. What survives: the module's own parameter tensors (the objects
// that parameters() gives) stay the same and always show the committed version. Aliases that a user made with view(),
// detach() or data() show the memory they were made from and go stale at the next commit.
//
// Thread safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "muster/compute/buffer_layout.h"
#include "muster/compute/lane_area.h"
#include "muster/compute/read_only_pages.h"
#include "muster/compute/write_guard.h"
#include "muster/model/flat_layout.h"
#include "muster/model/shard.h"

namespace muster::compute {

class ModuleBinding {
 public:
  // Takes the parameters and buffers of `module` as they are; tied parameters count once, under their first name.
  // Throws Error{kUnsupported} naming a parameter that is not fp32, double or bfloat16, dense and on the CPU, or a
  // buffer of another kind.
  explicit ModuleBinding(std::shared_ptr<torch::nn::Module> module);
  ModuleBinding(const ModuleBinding&) = delete;
  ModuleBinding& operator=(const ModuleBinding&) = delete;
  ~ModuleBinding();

  const model::FlatLayout& layout() const { return layout_; }
  const BufferLayout& buffer_layout() const { return buffer_layout_; }

  // Parameters that are not fp32, with the names of their types: they decide the result.
  std::vector<std::pair<std::string, std::string>> converted() const;

  // Copies the module's current values out; parameters that are in their places in `flat` already stay there.
  void read_parameters(std::span<float> flat) const;
  void read_buffers(std::span<std::byte> bytes) const;

  // Names the memory of both versions; `owner` is kept alive as long as any parameter looks into it.
  void attach(std::array<std::span<const float>, 2> versions, std::shared_ptr<void> owner);
  // Points the parameters at version `index`, whose values may have changed since. REQUIRES: attached.
  void show(int index);
  void write_buffers(std::span<const std::byte> bytes);
  // Calls `change` while parameters and buffers are those of the given memory, which it may write to. Then they show
  // what they did before. Throws Error{kCompute} naming a parameter that was replaced instead of written to, and what
  // `change` throws. REQUIRES: attached; no lane is in work.
  void change(std::span<float> parameters, std::span<std::byte> buffers, const std::function<void()>& change);

  // What of the model is computed here, where the rest is computed elsewhere: what is not, this process leaves alone in
  // areas of lanes. At first it is all.
  enum class Use : std::uint8_t {
    kNone,
    kWhole,
    kRest,  // the tensor's gradient is added to what those who compute behind this process have left in the area
  };
  struct Uses {
    std::vector<Use> tensors;             // in layout order; empty: kWhole
    std::vector<std::uint8_t> buffers{};  // in buffer-layout order, not 0: used; empty: all
  };
  void set_uses(Uses uses) { uses_ = std::move(uses); }
  // Where members of a team compute lanes together: what of each parameter (in layout order) and buffer is this one's;
  // nothing: the whole of it. REQUIRES: attached; shards of buffers are contiguous; show_shards(false).
  struct Shards {
    std::vector<std::optional<model::Shard>> tensors;
    std::vector<std::optional<model::Shard>> buffers{};
  };
  void set_shards(Shards shards);
  // With `shards` the module's tensors are this member's part of them, whose gradients and statistics go to the same
  // part of the lane's area; read_parameters(), read_buffers() and change() have to wait. REQUIRES: no lane is in work.
  void show_shards(bool shards);
  // Of the buffers that are used here.
  void read_used_buffers(std::span<std::byte> bytes) const;

  // From here to collect() or abandon_lane() gradients go to `area`: each is copied there as soon as backward has it,
  // while it is in the cache and before the next one needs memory. Gradients of before are forgotten.
  // `ready`, if given, is called inside backward with each tensor whose gradient has come; user code must leave that
  // gradient alone then, and the lane has a single backward().
  void begin_lane(const LaneArea& area, std::function<void(std::size_t tensor)> ready = {});
  // Ends the lane: moves what backward left elsewhere (create_graph, sparse or user-set gradients) into the area and
  // marks tensors without a gradient. Throws Error{kCompute} naming a parameter that user code replaced or moved out of
  // Muster's memory, Error{kInvalidInput} naming one that got more after it was told to be ready (tied weights inside
  // recomputed blocks). REQUIRES: begin_lane().
  void collect();
  // Ends the lane without a result.
  void abandon_lane();

  torch::nn::Module& module() { return *module_; }

 private:
  // Where a parameter lies in a flat array, and how.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::vector<std::int64_t> sizes{};
    std::vector<std::int64_t> strides{};
    bool is_contiguous = true;

    torch::Tensor in(float* flat) const;
  };
  static Place whole(const model::TensorSlot& slot);
  const std::vector<torch::Tensor>& shown_views() const;
  void point_at(const std::vector<torch::Tensor>& views);
  bool is_master(std::size_t tensor) const { return types_[tensor] == torch::kFloat32; }
  // To parameters that get gradients and have none yet: the first time, and when one was unfrozen.
  void add_hooks();
  Use use_of(std::size_t tensor) const { return uses_.tensors.empty() ? Use::kWhole : uses_.tensors[tensor]; }

  std::shared_ptr<torch::nn::Module> module_;
  model::FlatLayout layout_;
  BufferLayout buffer_layout_;
  std::vector<torch::Tensor> parameters_;              // in layout order
  std::vector<torch::Tensor> buffers_;                 // in buffer-layout order
  std::vector<torch::ScalarType> types_;               // of the parameters, as the module has them
  std::array<std::vector<torch::Tensor>, 2> views_;    // what the module is shown
  std::array<std::vector<torch::Tensor>, 2> masters_;  // of converted parameters; others are undefined
  std::shared_ptr<ReadOnlyPages> copies_;              // of converted parameters; null: there are none
  Shards shards_;
  std::vector<Place> shard_places_;  // in layout order; of shards_
  std::array<std::vector<torch::Tensor>, 2> shard_views_;
  std::vector<torch::Tensor> whole_buffers_;  // while buffers_ are shards of them
  bool shows_shards_ = false;
  std::optional<WriteGuard> guard_;  // of the memory they show
  int shown_ = -1;
  // What the hooks on the parameters look at: they may outlive a moved or destroyed binding by one backward.
  struct Capture;
  std::shared_ptr<Capture> capture_;
  std::vector<std::optional<unsigned>> hooks_;  // of each parameter
  Uses uses_;
};

}  // namespace muster::compute
