// The commit of a step as stages: lanes summed by the tree, checked, clipped, and the optimizer applied from version k
// into version k+1. Each is a pure function over a slice, and can be done again by anybody.
//
// Vocabulary. Flat array: see model/flat_layout.h. Lane area: one flat gradient with a mark per tensor that has one.
// Version: parameters, optimizer state and update counts of one committed step. Slice: a range of whole blocks, the
// share of one worker. The stages, with everyone's records known between them:
//   1. sum_slice      the lanes' sum, for blocks of tensors that have a gradient;
//      (exchange)     sums of others come in here, where there are others;
//   2. examine_slice  every block's squares and whether it is finite;
//      judge_step     from all records, in block order: is the step applied, and how is it clipped;
//   3. measure_slice  (LARS and LAMB) every block's norms;
//   4. update_slice   version k+1.
// Where a block's update does not depend on other blocks (no clipping, no norms) one pass does all of them, and a step
// that turns out not to be finite is dropped: half of the reading and writing is saved.
//
// Version k and the lanes are only ever read, so a slice can be done again by anyone after a crash at any instruction.
// The sum of several lanes is kept where version k+1's parameters go: nobody reads these before stage 4 overwrites
// them. Thread safety: slices that do not overlap may be done by different threads or processes. No torch here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "muster/compute/optimizer.h"
#include "muster/compute/reduce.h"
#include "muster/model/flat_layout.h"

namespace muster::compute {

struct Version {
  std::span<float> parameters;
  std::array<std::span<float>, 2> state;  // as many as the optimizer has slots; the rest empty
  std::span<std::uint64_t> updates;       // per tensor: how many steps changed it
};

// Of a lane, or the sum of all.
struct LaneGradient {
  const float* values = nullptr;          // flat
  const std::uint8_t* present = nullptr;  // per tensor: 1 if backward gave it a gradient
};

// What a step does to one tensor, beyond the step's own learning rate.
struct TensorRule {
  double weight_decay = 0;
  bool adapt = true;      // LARS and LAMB: scale by the trust ratio
  bool trainable = true;  // false: never gets a gradient; never written, both versions are the same from the start
  double lr_factor = 1;   // of the step's learning rate
  std::size_t part = 0;   // of the model: whose optimizer and rate
};

// Optimizer and rate of one part of the model.
struct PartRule {
  const Optimizer* optimizer = nullptr;  // null: no tensor of it trains
  double lr = 0;
};

// Writes of the program's own into version k+1, once all slices of it are there: part of the step as the optimizer is.
using AfterUpdate = std::function<void(std::span<float> parameters, std::span<std::byte> buffers)>;

struct UpdateRule {
  const Optimizer* optimizer = nullptr;  // of part 0: all there is of most models
  double lr = 0;
  std::optional<double> clip_norm;
  std::span<const TensorRule> tensors;  // one per tensor of the layout
  std::span<const PartRule> more{};     // of parts 1, 2, ...
  const AfterUpdate* after = nullptr;   // then tensors that never train are copied, too: it may write to them

  PartRule part_of(std::size_t tensor) const {
    const std::size_t part = tensors[tensor].part;
    return part == 0 ? PartRule{optimizer, lr} : more[part - 1];
  }
  // Of any part.
  bool needs_norms() const;
  std::size_t slots() const;  // the most
};

struct BlockRange {
  std::size_t first = 0;
  std::size_t last = 0;  // one past
};

struct Verdict {
  bool apply = true;  // false: some gradient is not finite, the step is skipped
  double gradient_norm = 0;
  float gradient_scale = 1;  // the clipping coefficient
};

// The sum of the lanes as stage 1 leaves it: the only lane itself, or `sums` with the marks of all, for which `marks`
// is the memory.
LaneGradient sum_of(std::span<const LaneGradient> lanes, std::span<const float> sums, std::size_t tensors,
                    std::vector<std::uint8_t>& marks);

// Stage 1. Writes the blocks of `sums` (flat) that some lane has a gradient of, and leaves the others. A lane may stand
// in `sums` itself if it is the only one. REQUIRES: at least one lane.
void sum_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, BlockRange slice,
               std::span<float> sums);

// Stage 2, of the sum. Writes records[first..last).
void examine_slice(const model::FlatLayout& layout, const LaneGradient& sum, BlockRange slice,
                   std::span<BlockSum> records);

// Stages 1 and 2 in turns of a few blocks, which are still in the caches. `sum` is sum_of() them.
void sum_and_examine_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes,
                           const LaneGradient& sum, BlockRange slice, std::span<float> sums,
                           std::span<BlockSum> records);

// Pure. `records` of all blocks.
Verdict judge_step(std::span<const BlockSum> records, std::optional<double> clip_norm);

// Stage 3, only when the rule needs norms. Writes norms[first..last).
void measure_slice(const model::FlatLayout& layout, const LaneGradient& sum, const UpdateRule& rule,
                   const Verdict& verdict, BlockRange slice, const Version& current, std::span<Norms> norms);

// Stage 4. `norms` of all blocks, or empty when the optimizer needs none. The sum may stand in next.parameters.
void update_slice(const model::FlatLayout& layout, const LaneGradient& sum, const UpdateRule& rule,
                  const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                  std::span<const Norms> norms);

// Whether all stages can be one, and that one: writes version k+1 and records[first..last). If judge_step() then says
// that the step is not applied, version k+1 is not to be shown to anybody.
bool updates_at_once(const UpdateRule& rule);
void update_slice_at_once(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                          BlockRange slice, const Version& current, const Version& next, std::span<BlockSum> records);

}  // namespace muster::compute
