// How a model is cut into parts: consecutive pieces (model/net.h), each part with about the same work. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster::pipeline {

// Pieces first .. last-1.
struct PieceRange {
  std::size_t first = 0;
  std::size_t last = 0;

  bool operator==(const PieceRange&) const = default;
};

// `parts` ranges, one after the other and none empty, whose largest cost is as small as it can be; it is at most the
// mean and the largest piece together. Of cuts that are as good the one whose parts come closest to the mean, from the
// front. Throws Error{kInvalidInput} when there are fewer pieces than parts.
std::vector<PieceRange> cut_by_cost(std::span<const std::uint64_t> costs, std::size_t parts);

// The cut that a user gives: the names of the pieces that parts begin with, but the first. Throws Error{kInvalidInput}
// for another number of parts, an unknown name (with the nearest), and names that are not in the model's order.
std::vector<PieceRange> cut_at(std::span<const std::string> pieces, std::span<const std::string> begins,
                               std::size_t parts);

}  // namespace muster::pipeline
