// By cost: the smallest limit under which the pieces fit, found by filling parts from the front under one limit after
// the other, between the largest piece and all of them.
#include "muster/pipeline/cut.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

Error too_few(std::size_t pieces, std::size_t parts) {
  return {ErrorKind::kInvalidInput,
          fmt::format("a model of {} pieces cannot be cut into {} parts", pieces, parts),
          {},
          "Use fewer stages (parallel.mesh), fewer chunks (parallel.chunks), or a deeper model."};
}

// How many parts are needed so that none costs more than `limit`. REQUIRES: no piece does.
std::size_t parts_under(std::span<const std::uint64_t> costs, std::uint64_t limit) {
  std::size_t parts = 1;
  std::uint64_t filled = 0;
  for (const std::uint64_t cost : costs) {
    if (filled > 0 && filled + cost > limit) {
      ++parts;
      filled = 0;
    }
    filled += cost;
  }
  return parts;
}

// Whether pieces `first` and on fit into `parts` parts under `limit`, none of them empty.
bool fits(std::span<const std::uint64_t> costs, std::size_t first, std::size_t parts, std::uint64_t limit) {
  const std::span<const std::uint64_t> left = costs.subspan(first);
  return left.size() >= parts && (left.empty() || parts > 0) && (left.empty() || parts_under(left, limit) <= parts);
}

std::uint64_t least_limit(std::span<const std::uint64_t> costs, std::size_t parts) {
  std::uint64_t low = *std::ranges::max_element(costs);
  std::uint64_t high = 0;
  for (const std::uint64_t cost : costs)
    high += cost;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (parts_under(costs, middle) <= parts)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

}  // namespace

std::vector<PieceRange> cut_by_cost(std::span<const std::uint64_t> costs, std::size_t parts) {
  if (parts == 0 || costs.size() < parts) throw too_few(costs.size(), parts);
  const std::uint64_t limit = least_limit(costs, parts);
  std::uint64_t left = 0;
  for (const std::uint64_t cost : costs)
    left += cost;
  std::vector<PieceRange> ranges;
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t behind = parts - part - 1;
    const std::uint64_t mean = left / (behind + 1);
    std::uint64_t filled = costs[first];
    std::size_t last = first + 1;
    // Longer while it must be, or while that brings it closer to the mean of what is left.
    while (last < costs.size() && filled + costs[last] <= limit && costs.size() - last > behind) {
      const bool must = !fits(costs, last, behind, limit);
      const std::uint64_t longer = filled + costs[last];
      const bool closer = longer <= mean || longer - mean < mean - std::min(mean, filled);
      if (!must && (!closer || !fits(costs, last + 1, behind, limit))) break;
      filled = longer;
      ++last;
    }
    ranges.push_back({first, last});
    left -= filled;
    first = last;
  }
  return ranges;
}

std::vector<PieceRange> cut_at(std::span<const std::string> pieces, std::span<const std::string> begins,
                               std::size_t parts) {
  if (begins.size() + 1 != parts)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} names begin {} parts, and there are {}", begins.size(), begins.size() + 1, parts), {},
                "Name the first piece of each part but the first one.");
  std::vector<PieceRange> ranges;
  std::size_t first = 0;
  for (const std::string& name : begins) {
    const auto found = std::ranges::find(pieces, name);
    if (found == pieces.end()) {
      const std::vector<std::string> all(pieces.begin(), pieces.end());
      throw Error(ErrorKind::kInvalidInput,
                  fmt::format("the model has no piece \"{}\"{}", name, did_you_mean(name, all)), {},
                  fmt::format("Its pieces are {}.", join_words(all)));
    }
    const auto at = static_cast<std::size_t>(found - pieces.begin());
    if (at <= first)
      throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" begins no part behind \"{}\"", name, pieces[first]), {},
                  "Name pieces in the order of the model, each once, and not its first one.");
    ranges.push_back({first, at});
    first = at;
  }
  ranges.push_back({first, pieces.size()});
  return ranges;
}

}  // namespace muster::pipeline
