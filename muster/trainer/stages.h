// A model in stages: how it is cut, who computes which part, and where what they pass on to each other lies. Pure; no
// torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/model/profile.h"
#include "muster/pipeline/mesh.h"
#include "muster/strategies/lane_share.h"
#include "muster/strategies/members.h"

namespace muster::trainer {

class Stages {
 public:
  // Cut at `begins` (pipeline/cut.h), or, without names, by the pieces' multiply-adds. `lane_samples`: the most that a
  // lane has. Throws Error{kInvalidInput} as cut_at() and cut_by_cost().
  Stages(const pipeline::Mesh& mesh, std::vector<model::PieceProfile> pieces, std::span<const std::string> begins,
         std::uint64_t lane_samples);

  const pipeline::Mesh& mesh() const { return mesh_; }
  const std::vector<model::PieceProfile>& pieces() const { return pieces_; }
  const std::vector<pipeline::PieceRange>& cut() const { return cut_; }

  // The mesh as so many members make it.
  pipeline::Arrangement arrange(std::size_t members) const { return pipeline::arrange(mesh_, cut_, members); }
  // Which lanes are the business of a member: those of its row, or none.
  strategies::LaneShare share(const strategies::Members& members) const;

  // What the workers of a lane hand on to each other lies in the lane's passage, activations on their way forward and
  // the gradients of them on their way back in the same place: a part needs its input no more when it has its gradient.
  std::size_t passage_bytes() const { return passage_bytes_; }
  // Where the output of piece `piece` lies. REQUIRES: a part of the cut ends with it.
  std::span<std::byte> place(std::span<std::byte> passage, std::size_t piece) const;

  // How many lanes' activations a worker keeps at most, on average over a row's stages: 1 is one lane through all of
  // the model. For a full mesh and a step of `lanes` lanes.
  double lanes_kept(std::size_t lanes) const;

  // The most that each stage holds of activations, when `lanes` lanes of `samples` samples go through a step of a full
  // mesh; the loss and its gradient included. `memory` is that of the pieces. Teams divide some of it: of them it is a
  // bound.
  std::vector<std::uint64_t> activation_bytes(std::span<const model::PieceMemory> memory, std::size_t lanes,
                                              std::uint64_t samples) const;

  // Who holds what, a line for each stage with blocks, bytes and multiply-adds, and of activations these bytes, if any
  // are given; the first line says how it is arranged.
  std::vector<std::string> describe(std::span<const std::uint64_t> activation_bytes = {}) const;
  // Of each of `members` members its row and stage, as "0.1", and where stages are teams its place there; empty: it
  // has none.
  std::vector<std::string> places(std::size_t members) const;

 private:
  std::string describe_part(const pipeline::PieceRange& part) const;

  const pipeline::Mesh mesh_;
  const std::vector<model::PieceProfile> pieces_;
  const std::vector<pipeline::PieceRange> cut_;
  std::vector<std::size_t> offsets_;  // in a passage, by part of the cut; the output of the last one has no place
  std::size_t passage_bytes_ = 0;
};

}  // namespace muster::trainer
