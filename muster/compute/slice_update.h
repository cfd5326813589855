// One synchronous update of a slice: lanes reduced by the tree, checked, clipped, and the optimizer applied from
// version k into version k+1.
//
// Vocabulary. Flat array: see model/flat_layout.h. Lane area: one flat gradient with a mark per tensor that has one.
// Version: parameters, optimizer state and update counts of one committed step. Slice: a range of whole blocks, the
// share of one worker. A step is three phases with everyone's records known between them:
//   1. reduce_slice   sums the lanes and records every block's squares and whether it is finite;
//   2. measure_slice  (LARS and LAMB) records every block's norms;
//   3. update_slice   writes version k+1.
// Between 1 and 2 judge_step decides, from all records in block order, whether the step is applied and how it is
// clipped. Where a block's update does not depend on that (no clipping, no norms) one pass does all three, and a step
// that turns out not to be finite is dropped: half of the reading and writing is saved.
//
// Version k and the lanes are only ever read, so a slice can be done again by anyone after a crash at any instruction.
// The sum of several lanes is kept where version k+1's parameters go: nobody reads these before phase 3 overwrites
// them. Thread safety: slices that do not overlap may be done by different threads or processes. No torch here.
#pragma once

#include <array>
#include <cstdint>
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
};

struct UpdateRule {
  const Optimizer* optimizer = nullptr;
  double lr = 0;
  std::optional<double> clip_norm;
  std::span<const TensorRule> tensors;  // one per tensor of the layout
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

// Phase 1. Writes records[first..last).
void reduce_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, BlockRange slice,
                  const Version& next, std::span<BlockSum> records);

// Pure. `records` of all blocks.
Verdict judge_step(std::span<const BlockSum> records, std::optional<double> clip_norm);

// Phase 2, only when the optimizer needs norms. Writes norms[first..last).
void measure_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                   const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                   std::span<Norms> norms);

// Phase 3. `norms` of all blocks, or empty when the optimizer needs none.
void update_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes, const UpdateRule& rule,
                  const Verdict& verdict, BlockRange slice, const Version& current, const Version& next,
                  std::span<const Norms> norms);

// Whether all phases can be one, and that one: writes version k+1 and records[first..last). If judge_step() then says
// that the step is not applied, version k+1 is not to be shown to anybody.
bool updates_at_once(const UpdateRule& rule);
void reduce_and_update_slice(const model::FlatLayout& layout, std::span<const LaneGradient> lanes,
                             const UpdateRule& rule, BlockRange slice, const Version& current, const Version& next,
                             std::span<BlockSum> records);

}  // namespace muster::compute
