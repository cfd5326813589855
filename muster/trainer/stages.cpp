// The cut is made once, from the model alone; who computes which part is asked again in every generation, of the number
// of its members.
#include "muster/trainer/stages.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/check.h"
#include "muster/base/text.h"
#include "muster/pipeline/simulator.h"

namespace muster::trainer {
namespace {

constexpr std::size_t kLine = 64;  // tensors of LibTorch begin at such addresses

std::vector<pipeline::PieceRange> cut_of(const pipeline::Mesh& mesh, const std::vector<model::PieceProfile>& pieces,
                                         std::span<const std::string> begins) {
  std::vector<std::string> names;
  std::vector<std::uint64_t> costs;
  for (const model::PieceProfile& piece : pieces) {
    names.push_back(piece.name);
    costs.push_back(static_cast<std::uint64_t>(piece.multiply_adds));
  }
  return begins.empty() ? pipeline::cut_by_cost(costs, mesh.parts()) : pipeline::cut_at(names, begins, mesh.parts());
}

std::string human_count(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} G", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  return fmt::format("{:.1f} k", count / 1e3);
}

}  // namespace

Stages::Stages(const pipeline::Mesh& mesh, std::vector<model::PieceProfile> pieces, std::span<const std::string> begins,
               std::uint64_t lane_samples)
    : mesh_(mesh), pieces_(std::move(pieces)), cut_(cut_of(mesh_, pieces_, begins)) {
  for (std::size_t part = 0; part + 1 < cut_.size(); ++part) {
    offsets_.push_back(passage_bytes_);
    const std::uint64_t bytes = pieces_[cut_[part].last - 1].output_bytes * lane_samples;
    passage_bytes_ += (bytes + kLine - 1) / kLine * kLine;
  }
  offsets_.push_back(passage_bytes_);
}

strategies::LaneShare Stages::share(const strategies::Members& members) const {
  const pipeline::Arrangement made = arrange(members.count());
  const std::optional<pipeline::Position> position = made.position(members.index());
  if (!position) return {.index = 0, .count = 1, .claims = false, .loads = false};
  const bool first = position->stage == 0;
  return {.index = position->row,
          .count = made.rows,
          .claims = first && position->member == 0,
          .loads = first || position->stage + 1 == made.stages};
}

std::span<std::byte> Stages::place(std::span<std::byte> passage, std::size_t piece) const {
  const auto part = std::ranges::find(cut_, piece + 1, &pipeline::PieceRange::last);
  MUSTER_CHECK(part != cut_.end() && part + 1 != cut_.end(), "a part ends with this piece, and another one follows");
  const auto index = static_cast<std::size_t>(part - cut_.begin());
  return passage.subspan(offsets_[index], offsets_[index + 1] - offsets_[index]);
}

double Stages::lanes_kept(std::size_t lanes) const {
  const pipeline::Arrangement made = arrange(mesh_.workers());
  const std::size_t of_row = (lanes + made.rows - 1) / made.rows;
  double kept = 0;
  for (const std::size_t parts : pipeline::simulate(made.schedule, made.shape(of_row)).kept)
    kept += static_cast<double>(parts);
  return kept / static_cast<double>(made.parts.size());
}

std::vector<std::uint64_t> Stages::activation_bytes(std::span<const model::PieceMemory> memory, std::size_t lanes,
                                                    std::uint64_t samples) const {
  MUSTER_CHECK(memory.size() == pieces_.size(), "the memory of each piece");
  const pipeline::Arrangement made = arrange(mesh_.workers());
  std::vector<std::uint64_t> kept(made.parts.size());
  std::vector<std::uint64_t> most(made.parts.size());
  for (std::size_t part = 0; part < made.parts.size(); ++part) {
    for (std::size_t piece = made.parts[part].first; piece < made.parts[part].last; ++piece) {
      // While a piece is computed, those before it keep what they have for backward.
      most[part] = std::max(most[part], kept[part] + memory[piece].most.of(samples));
      kept[part] += memory[piece].kept.of(samples);
    }
    // The probabilities of a loss, and its gradient.
    if (part + 1 == made.parts.size())
      most[part] = std::max(most[part], kept[part] + 2 * pieces_.back().output_bytes * samples);
  }
  const std::size_t of_row = (lanes + made.rows - 1) / made.rows;
  std::vector<std::uint64_t> peaks(made.stages);
  for (std::size_t stage = 0; stage < made.stages; ++stage) {
    std::uint64_t held = 0;
    for (const pipeline::Action& action : pipeline::actions_of(made.schedule, made.shape(of_row), stage)) {
      if (!action.forward) held -= kept[action.part];
      peaks[stage] = std::max(peaks[stage], held + most[action.part]);
      if (action.forward) held += kept[action.part];
    }
  }
  return peaks;
}

std::string Stages::describe_part(const pipeline::PieceRange& part) const {
  const std::string& first = pieces_[part.first].name;
  const std::string& last = pieces_[part.last - 1].name;
  return first == last ? first : fmt::format("{} to {}", first, last);
}

std::vector<std::string> Stages::describe(std::span<const std::uint64_t> activation_bytes) const {
  const pipeline::Arrangement made = arrange(mesh_.workers());
  const bool teams = made.team > 1;
  std::vector<std::string> lines{
      fmt::format("{} workers: data {} x pipeline {}{}, {}", mesh_.workers(), mesh_.data, mesh_.pipeline,
                  teams ? fmt::format(" x tensor {}", made.team) : "",
                  teams ? "members of a team are neighbours in rank, since they exchange most, then the stages of a row"
                        : "neighbours in a row are neighbours in rank")};
  for (std::size_t stage = 0; stage < made.stages; ++stage) {
    std::vector<std::string> names;
    std::vector<std::string> ranks;
    double multiply_adds = 0;
    std::uint64_t parameters = 0;
    std::uint64_t divided = 0;
    for (std::size_t part = stage; part < made.parts.size(); part += made.stages) {
      names.push_back(describe_part(made.parts[part]));
      for (std::size_t piece = made.parts[part].first; piece < made.parts[part].last; ++piece) {
        multiply_adds += static_cast<double>(pieces_[piece].multiply_adds);
        parameters += pieces_[piece].parameter_bytes;
        divided += pieces_[piece].divided_bytes;
      }
    }
    for (std::size_t row = 0; row < made.rows; ++row) {
      const std::size_t first = made.rank({row, stage});
      ranks.push_back(teams ? fmt::format("{} to {}", first, first + made.team - 1) : std::to_string(first));
    }
    std::uint64_t passed = 0;
    for (std::size_t part = stage; part + 1 < made.parts.size(); part += made.stages)
      passed += pieces_[made.parts[part].last - 1].output_bytes;
    lines.push_back(
        fmt::format("stage {} (rank {}): {}; parameters {}, {} multiply-adds a sample, passes on {} a sample{}", stage,
                    fmt::join(ranks, ", "), fmt::join(names, ", "), human_bytes(parameters), human_count(multiply_adds),
                    human_bytes(passed),
                    activation_bytes.empty()
                        ? ""
                        : fmt::format(", holds at most {} of activations", human_bytes(activation_bytes[stage]))));
    if (teams)
      lines.push_back(fmt::format("  a member of its team: {} of the parameters, {} of them its own part of the layers",
                                  human_bytes(parameters - divided + divided / made.team),
                                  human_bytes(divided / made.team)));
  }
  return lines;
}

std::vector<std::string> Stages::places(std::size_t members) const {
  const pipeline::Arrangement made = arrange(members);
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < members; ++rank) {
    const std::optional<pipeline::Position> position = made.position(rank);
    all.push_back(!position       ? ""
                  : made.team > 1 ? fmt::format("{}.{}.{}", position->row, position->stage, position->member)
                                  : fmt::format("{}.{}", position->row, position->stage));
  }
  return all;
}

}  // namespace muster::trainer
