// Three phases over blocks, each restartable: they read version k and the lanes and write only what is this slice's of
// version k+1. The sum of the lanes stands where version k+1's parameters go until the update overwrites it.
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
constexpr std::size_t kBlocksInCache = 4;  // of 64 KiB: the second-level cache of any processor of today

bool any_present(std::span<const LaneGradient> lanes, std::uint32_t tensor) {
  return std::any_of(lanes.begin(), lanes.end(), [&](const LaneGradient& lane) { return lane.present[tensor] != 0; });
}

template <typename T>
std::span<T> part(std::span<T> all, const Block& block) {
  return all.empty() ? all : all.subspan(block.begin, block.size());
}

// The gradient of a block for stage 4. A sum that stands in version k+1 is copied out first, because parameters are
// written over it; a block stays in the first-level caches.
class SummedGradient {
 public:
  SummedGradient(const LaneGradient& sum, const Version& next)
      : sum_(sum), scratch_(sum.values == next.parameters.data() ? model::kBlockFloats : 0) {}

  std::span<const float> of(const Block& block) {
    const std::span<const float> values(sum_.values + block.begin, block.size());
    if (scratch_.empty()) return values;
    std::ranges::copy(values, scratch_.begin());
    return {scratch_.data(), block.size()};
  }

 private:
  const LaneGradient& sum_;
  std::vector<float> scratch_;
};

// Tree sums, block by block.
class BlockSummer {
 public:
  explicit BlockSummer(std::span<const LaneGradient> lanes) : lanes_(lanes), sources_(lanes.size()) {
    MUSTER_CHECK(!lanes.empty(), "a step has at least one lane");
  }

  // In `scratch`, or the memory of the only lane that has one.
  std::span<const float> sum(const Block& block, std::span<float> scratch) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      sources_[lane] = lanes_[lane].present[block.tensor] != 0 ? lanes_[lane].values : nullptr;
    return reduce_lanes(sources_, block.begin, scratch);
  }

 private:
  std::span<const LaneGradient> lanes_;
  std::vector<const float*> sources_;
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
  step.lr = rule.part_of(tensor).lr * rule.tensors[tensor].lr_factor;
  step.weight_decay = rule.tensors[tensor].weight_decay;
  step.adapt = rule.tensors[tensor].adapt;
  step.step = current.updates[tensor] + 1;
  return step;
}

// Whether this step changes the tensor; one without a gradient in any lane is left alone, as torch::optim does.
bool changes(const UpdateRule& rule, const LaneGradient& sum, std::uint32_t tensor) {
  return rule.tensors[tensor].trainable && sum.present[tensor] != 0;
}

}  // namespace

bool UpdateRule::needs_norms() const {
  const auto wants = [](const Optimizer* of) { return of != nullptr && of->needs_norms(); };
  return wants(optimizer) || std::ranges::any_of(more, [&](const PartRule& part) { return wants(part.optimizer); });
}

std::size_t UpdateRule::slots() const {
  const auto of = [](const Optimizer* one) { return one == nullptr ? 0 : static_cast<std::size_t>(one->slots()); };
  std::size_t most = of(optimizer);
  for (const PartRule& part : more)
    most = std::max(most, of(part.optimizer));
  return most;
}

LaneGradient sum_of(std::span<const LaneGradient> lanes, std::span<const float> sums, std::size_t tensors,
                    std::vector<std::uint8_t>& marks) {
  if (lanes.size() == 1) return lanes[0];
  marks.assign(tensors, 0);
  for (const LaneGradient& lane : lanes) {
    for (std::size_t tensor = 0; tensor < tensors; ++tensor)
      marks[tensor] |= lane.present[tensor];
  }
  return {sums.data(), marks.data()};
}

void sum_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, BlockRange slice,
               std::span<float> sums) {
  BlockSummer summer(lanes);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    if (!any_present(lanes, block.tensor)) continue;
    const std::span<float> target = part(sums, block);
    const std::span<const float> sum = summer.sum(block, target);
    if (sum.data() != target.data()) std::ranges::copy(sum, target.begin());  // one lane only has this tensor
  }
}

void examine_slice(const model::FlatLayout& layout, const LaneGradient& sum, BlockRange slice,
                   std::span<BlockSum> records) {
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    const bool present = sum.present[block.tensor] != 0;
    records[index] = present ? examine({sum.values + block.begin, block.size()}) : BlockSum{};
  }
}

void sum_and_examine_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes,
                           const LaneGradient& sum, BlockRange slice, std::span<float> sums,
                           std::span<BlockSum> records) {
  if (lanes.size() == 1) return examine_slice(layout, sum, slice, records);
  for (std::size_t first = slice.first; first < slice.last; first += kBlocksInCache) {
    const BlockRange few{first, std::min(slice.last, first + kBlocksInCache)};
    sum_slice(layout, lanes, few, sums);
    examine_slice(layout, sum, few, records);
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

void measure_slice(const model::FlatLayout& layout, const LaneGradient& sum, const UpdateRule& rule,
                   const Verdict& verdict, BlockRange slice, const Version& current, std::span<Norms> norms) {
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    norms[index] = Norms{};
    if (!changes(rule, sum, block.tensor)) continue;
    const BlockInput input = input_of(block, {sum.values + block.begin, block.size()}, current, verdict.gradient_scale);
    norms[index] = rule.part_of(block.tensor).optimizer->norms(input, step_of(rule, block.tensor, current));
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
        slots_(rule.slots()),
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
    const Optimizer& optimizer = *rule_.part_of(block.tensor).optimizer;
    const TensorStep step = step_of(rule_, block.tensor, current_);
    const double trust_ratio = optimizer.needs_norms() ? trust_ratio_of(index, step, norms) : 1;
    BlockOutput output;
    output.stores = stores_;
    output.parameters = part(next_.parameters, block);
    // Slots that only other parts have are zeros in both versions.
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(optimizer.slots()); ++slot)
      output.state[slot] = part(next_.state[slot], block);
    optimizer.update(input_of(block, gradient, current_, scale), step, trust_ratio, output);
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
    return rule_.part_of(tensor).optimizer->trust_ratio(whole, step);
  }

  const std::vector<Block>& blocks_;
  const UpdateRule& rule_;
  const Version& current_;
  const Version& next_;
  const std::size_t slots_;
  const Stores stores_;
};

// Whether to leave the block's tensor alone for good.
bool never_changes(const UpdateRule& rule, std::uint32_t tensor, bool present) {
  if (rule.tensors[tensor].trainable) return false;
  // Its sum would stand where the parameters are.
  MUSTER_CHECK(!present, "a gradient of a tensor that never trains");
  return rule.after == nullptr;
}

}  // namespace

void update_slice(const model::FlatLayout& layout, const LaneGradient& sum, const UpdateRule& rule,
                  const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                  std::span<const Norms> norms) {
  MUSTER_CHECK(verdict.apply, "a skipped step updates nothing");
  const BlockWriter writer(layout, rule, current, next);
  SummedGradient gradient(sum, next);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    const bool present = sum.present[block.tensor] != 0;
    if (never_changes(rule, block.tensor, present)) continue;
    if (present)
      writer.update(index, gradient.of(block), verdict.gradient_scale, norms);
    else
      writer.keep(index);
  }
}

bool updates_at_once(const UpdateRule& rule) {
  return !rule.clip_norm && !rule.needs_norms();
}

void update_slice_at_once(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                          BlockRange slice, const Version& current, const Version& next, std::span<BlockSum> records) {
  MUSTER_CHECK(updates_at_once(rule), "what is done with a block does not depend on others");
  const BlockWriter writer(layout, rule, current, next);
  BlockSummer summer(lanes);
  std::vector<float> scratch(model::kBlockFloats);
  for (std::size_t index = slice.first; index < slice.last; ++index) {
    const Block& block = layout.blocks()[index];
    const bool present = any_present(lanes, block.tensor);
    records[index] = BlockSum{};
    if (never_changes(rule, block.tensor, present)) continue;
    if (!present) {
      writer.keep(index);
      continue;
    }
    const std::span<const float> sum = summer.sum(block, std::span(scratch).first(block.size()));
    records[index] = examine(sum);
    writer.update(index, sum, 1, {});
  }
}

}  // namespace muster::compute
