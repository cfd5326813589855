#include "muster/compute/slice_update.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "muster/base/check.h"
#include "muster/compute/clipping.h"

namespace muster::compute {
namespace {

using model::Block;

// A version larger than this is written past the caches, where it could not stay anyway. Changes speed, never bits.
constexpr std::size_t kCachedBytes = 32 << 20;

bool any_present(std::span<const LaneGradient> lanes, std::uint32_t tensor) {
  return std::any_of(lanes.begin(), lanes.end(), [&](const LaneGradient& lane) { return lane.present[tensor] != 0; });
}

template <typename T>
std::span<T> part(std::span<T> all, const Block& block) {
  return all.empty() ? all : all.subspan(block.begin, block.size());
}

// The gradient of a block after phase 1: the only lane's own memory, or the sum that stands in version k+1. The sum is
// copied out first because phase 3 writes parameters over it; a block stays in the first-level caches.
class ReducedGradient {
 public:
  ReducedGradient(std::span<const LaneGradient> lanes, const Version& next)
      : lanes_(lanes), next_(next), scratch_(lanes.size() > 1 ? model::kBlockFloats : 0) {}

  std::span<const float> of(const Block& block) {
    if (lanes_.size() == 1) return {lanes_[0].values + block.begin, block.size()};
    const std::span<const float> sum = part<float>(next_.parameters, block);
    std::copy(sum.begin(), sum.end(), scratch_.begin());
    return {scratch_.data(), block.size()};
  }

 private:
  std::span<const LaneGradient> lanes_;
  const Version& next_;
  std::vector<float> scratch_;
};

BlockInput input_of(const Block& block, std::span<const float> gradient, const Version& current, float scale) {
  BlockInput input;
  input.parameters = part<float>(current.parameters, block);
  input.gradient = gradient;
  for (std::size_t slot = 0; slot < input.state.size(); ++slot)
    input.state[slot] = part<float>(current.state[slot], block);
  input.gradient_scale = scale;
  return input;
}

TensorStep step_of(const UpdateRule& rule, std::uint32_t tensor, const Version& current) {
  TensorStep step;
  step.lr = rule.lr * rule.tensors[tensor].lr_factor;
  step.weight_decay = rule.tensors[tensor].weight_decay;
  step.adapt = rule.tensors[tensor].adapt;
  step.step = current.updates[tensor] + 1;
  return step;
}

// Whether this step changes the tensor; one without a gradient in any lane is left alone, as torch::optim does.
bool changes(const UpdateRule& rule, std::span<const LaneGradient> lanes, std::uint32_t tensor) {
  return rule.tensors[tensor].trainable && any_present(lanes, tensor);
}

}  // namespace

void reduce_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, BlockRange slice,
                  const Version& next, std::span<BlockSum> records) {
  MUSTER_CHECK(!lanes.empty(), "a step has at least one lane");
  std::vector<const float*> sources(lanes.size());
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    records[index] = BlockSum{0.0, true};
    if (!any_present(lanes, block.tensor)) continue;
    if (lanes.size() == 1) {
      records[index] = examine({lanes[0].values + block.begin, block.size()});
      continue;
    }
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      sources[lane] = lanes[lane].present[block.tensor] != 0 ? lanes[lane].values : nullptr;
    }
    const std::span<float> sum = part(next.parameters, block);
    const std::span<const float> reduced = reduce_lanes(sources, block.begin, sum);
    if (reduced.data() != sum.data()) std::ranges::copy(reduced, sum.begin());  // one lane only has this tensor
    records[index] = examine(sum);
  }
}

Verdict judge_step(std::span<const BlockSum> records, std::optional<double> clip_norm) {
  Verdict verdict;
  double squares = 0;
  for (const BlockSum& record : records) {
    squares += record.squares;
    verdict.apply = verdict.apply && record.finite;
  }
  verdict.gradient_norm = std::sqrt(squares);
  if (verdict.apply && clip_norm) verdict.gradient_scale = clip_coefficient(verdict.gradient_norm, *clip_norm);
  return verdict;
}

void measure_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                   const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                   std::span<Norms> norms) {
  ReducedGradient gradient(lanes, next);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    norms[index] = Norms{};
    if (!changes(rule, lanes, block.tensor)) continue;
    const BlockInput input = input_of(block, gradient.of(block), current, verdict.gradient_scale);
    norms[index] = rule.optimizer->norms(input, step_of(rule, block.tensor, current));
  }
}

namespace {

// Writes the blocks of version k+1, one after the other.
class BlockWriter {
 public:
  BlockWriter(const model::FlatLayout& layout, const UpdateRule& rule, const Version& current, const Version& next)
      : blocks_(layout.blocks()),
        rule_(rule),
        current_(current),
        next_(next),
        slots_(static_cast<std::size_t>(rule.optimizer->slots())),
        stores_(layout.size() * sizeof(float) * (1 + slots_) > kCachedBytes ? Stores::kStreamed : Stores::kCached) {}

  // Of a tensor without a gradient. Version k+1's memory holds version k-1: what does not change is copied.
  void keep(std::size_t index) const {
    const Block& block = blocks_[index];
    std::ranges::copy(part(current_.parameters, block), part(next_.parameters, block).begin());
    for (std::size_t slot = 0; slot < slots_; ++slot)
      std::ranges::copy(part(current_.state[slot], block), part(next_.state[slot], block).begin());
    if (first_of_tensor(index)) next_.updates[block.tensor] = current_.updates[block.tensor];
  }

  // `norms` of every block, for optimizers that need them.
  void update(std::size_t index, std::span<const float> gradient, float scale, std::span<const Norms> norms) const {
    const Block& block = blocks_[index];
    const TensorStep step = step_of(rule_, block.tensor, current_);
    const double trust_ratio = rule_.optimizer->needs_norms() ? trust_ratio_of(index, step, norms) : 1;
    BlockOutput output;
    output.stores = stores_;
    output.parameters = part(next_.parameters, block);
    for (std::size_t slot = 0; slot < slots_; ++slot)
      output.state[slot] = part(next_.state[slot], block);
    rule_.optimizer->update(input_of(block, gradient, current_, scale), step, trust_ratio, output);
    if (first_of_tensor(index)) next_.updates[block.tensor] = step.step;
  }

 private:
  bool first_of_tensor(std::size_t index) const {
    return index == 0 || blocks_[index - 1].tensor != blocks_[index].tensor;
  }

  // By all blocks of the tensor, in block order, whoever owns them.
  double trust_ratio_of(std::size_t index, const TensorStep& step, std::span<const Norms> norms) const {
    const std::uint32_t tensor = blocks_[index].tensor;
    std::size_t from = index;
    while (from > 0 && blocks_[from - 1].tensor == tensor)
      --from;
    Norms whole;
    for (std::size_t i = from; i < blocks_.size() && blocks_[i].tensor == tensor; ++i) {
      whole.parameters_squared += norms[i].parameters_squared;
      whole.update_squared += norms[i].update_squared;
    }
    return rule_.optimizer->trust_ratio(whole, step);
  }

  const std::vector<Block>& blocks_;
  const UpdateRule& rule_;
  const Version& current_;
  const Version& next_;
  const std::size_t slots_;
  const Stores stores_;
};

// Whether to leave the block's tensor alone for good.
bool never_trains(const UpdateRule& rule, std::uint32_t tensor, bool present) {
  if (rule.tensors[tensor].trainable) return false;
  // Its sum would stand where the parameters are.
  MUSTER_CHECK(!present, "a gradient of a tensor that never trains");
  return true;
}

}  // namespace

void update_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                  const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                  std::span<const Norms> norms) {
  MUSTER_CHECK(verdict.apply, "a skipped step updates nothing");
  const BlockWriter writer(layout, rule, current, next);
  ReducedGradient gradient(lanes, next);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    const bool present = any_present(lanes, block.tensor);
    if (never_trains(rule, block.tensor, present)) continue;
    if (present)
      writer.update(index, gradient.of(block), verdict.gradient_scale, norms);
    else
      writer.keep(index);
  }
}

bool updates_at_once(const UpdateRule& rule) {
  return !rule.clip_norm && !rule.optimizer->needs_norms();
}

void reduce_and_update_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes,
                             const UpdateRule& rule, BlockRange slice, const Version& current, const Version& next,
                             std::span<BlockSum> records) {
  MUSTER_CHECK(updates_at_once(rule), "what is done with a block does not depend on others");
  const BlockWriter writer(layout, rule, current, next);
  std::vector<const float*> sources(lanes.size());
  std::vector<float> sum(model::kBlockFloats);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    const bool present = any_present(lanes, block.tensor);
    records[index] = BlockSum{0.0, true};
    if (never_trains(rule, block.tensor, present)) continue;
    if (!present) {
      writer.keep(index);
      continue;
    }
    std::span<const float> reduced{lanes[0].values + block.begin, block.size()};
    if (lanes.size() > 1) {
      for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        sources[lane] = lanes[lane].present[block.tensor] != 0 ? lanes[lane].values : nullptr;
      reduced = reduce_lanes(sources, block.begin, std::span(sum).first(block.size()));
    }
    records[index] = examine(reduced);
    writer.update(index, reduced, 1, {});
  }
}

}  // namespace muster::compute
