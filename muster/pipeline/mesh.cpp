// The one place where a number of members becomes rows and stages. Everybody asks it with the same numbers, so nobody
// has to be told where it is.
#include "muster/pipeline/mesh.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/check.h"

namespace muster::pipeline {

std::optional<Position> Arrangement::position(std::size_t rank) const {
  const std::size_t place = rank / team;
  if (place >= rows * stages) return std::nullopt;
  return Position{place / stages, place % stages, rank % team};
}

Arrangement arrange(const Mesh& mesh, const std::vector<PieceRange>& cut, std::size_t members) {
  MUSTER_CHECK(members > 0 && cut.size() == mesh.parts(), "a cut of the mesh, and somebody to compute it");
  Arrangement made;
  made.schedule = mesh.schedule;
  made.team = mesh.tensor;
  const std::size_t teams = members / mesh.tensor;
  made.stages = std::clamp<std::size_t>(teams, 1, mesh.pipeline);
  made.rows = std::min(mesh.data, teams / made.stages);
  if (made.rows == 0) {
    made.stages = mesh.pipeline;
    made.parts = cut;
    made.reason = fmt::format("{} left of a team of {}: waiting until others come", members, mesh.tensor);
    return made;
  }
  if (made.stages == mesh.pipeline) {
    made.parts = cut;
    const std::size_t idle = members - made.rows * made.stages * made.team;
    made.reason = fmt::format("{} of {} rows of {} stages{}", made.rows, mesh.data, made.stages,
                              idle == 0 ? "" : fmt::format("; {} wait for a whole row", idle));
    return made;
  }
  // Chunks are a means against waiting; what counts here is that it goes on.
  if (made.schedule == Schedule::kInterleaved) made.schedule = Schedule::kOneForwardOneBackward;
  for (std::size_t stage = 0; stage < made.stages; ++stage) {
    const std::size_t first = stage * cut.size() / made.stages;
    const std::size_t last = (stage + 1) * cut.size() / made.stages;
    made.parts.push_back({cut[first].first, cut[last - 1].last});
  }
  made.reason = fmt::format("{} left of {} stages: each computes more of the model until others come", made.stages,
                            mesh.pipeline);
  return made;
}

}  // namespace muster::pipeline
