// The mesh: workers as rows of a pipeline's stages, and stages as teams. Rows share the lanes of a step (data), stages
// share a lane (pipeline), the members of a team share each layer (tensor).
//
// Members of a team are neighbours in rank, since they exchange most, then the stages of a row; data is outermost. Who
// is where follows from the members of a generation alone, so every worker knows it of all. Where workers of a host are
// missing, those who are left arrange themselves anew: any of them can compute any part, since the host's arena shows
// all parameters to all. Teams stay whole, because how a sum is divided decides its last bits: too few for one wait for
// others. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/pipeline/cut.h"
#include "muster/pipeline/schedule.h"

namespace muster::pipeline {

struct Mesh {
  std::size_t data = 1;      // rows
  std::size_t pipeline = 1;  // stages of a row
  std::size_t tensor = 1;    // members of a stage's team
  std::size_t chunks = 1;    // of a stage, with interleaved
  Schedule schedule = Schedule::kOneForwardOneBackward;

  std::size_t workers() const { return data * pipeline * tensor; }
  // Whether several workers compute a lane together.
  bool shares_lanes() const { return pipeline * tensor > 1; }
  // Into which the model is cut.
  std::size_t parts() const { return pipeline * chunks; }
};

// A worker's place. A worker that is left over has none: it computes no lanes.
struct Position {
  std::size_t row = 0;
  std::size_t stage = 0;
  std::size_t member = 0;  // of the stage's team
};

// The mesh as the present members make it.
struct Arrangement {
  std::size_t rows = 1;  // 0: there are too few for one team
  std::size_t stages = 1;
  std::size_t team = 1;
  Schedule schedule = Schedule::kOneForwardOneBackward;
  std::vector<PieceRange> parts{};  // part i is stage i % stages's
  std::string reason{};             // in words

  std::optional<Position> position(std::size_t rank) const;
  std::size_t rank(const Position& position) const { return team_of(position) * team + position.member; }
  // The how-manieth team of all is the one of this place.
  std::size_t team_of(const Position& position) const { return position.row * stages + position.stage; }
  std::size_t stage_of(std::size_t part) const { return part % stages; }
  // Of a step in which `lanes` lanes go through each row's pipeline.
  Shape shape(std::size_t lanes) const { return {stages, lanes, parts.size() / stages}; }
};

// With as many members as the mesh has: the mesh, cut as `cut` says. With fewer: as many whole rows as there are
// members for; with fewer than one row has, one row of fewer stages, each with consecutive parts, and chunks no more;
// with fewer than a team has, none.
// REQUIRES: members > 0, and `cut` has mesh.parts() ranges.
Arrangement arrange(const Mesh& mesh, const std::vector<PieceRange>& cut, std::size_t members);

}  // namespace muster::pipeline
