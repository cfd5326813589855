// What each choice at each open place of a net of blocks takes on a machine: measured by `muster bench blocks`, and
// what a search weighs against accuracy. The time of a net is taken to be the sum of its parts'. No torch here.
//
//   {"format": 1, "net": "fbnet-8-16s2-16-32", "input": [1, 28, 28], "batch": 1, "threads": 1, "rest_ms": 0.11,
//    "places": [{"place": 1, "choices": {"k3e1": 0.05, ...}}, ...]}
//
// Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/model/zoo/block_words.h"

namespace muster::zoo {

struct LatencyTable {
  BlockNet net{};                     // with open places
  std::vector<std::int64_t> input{};  // of one sample: channels, height, width
  std::int64_t batch = 1;             // samples at once
  std::int64_t threads = 1;
  double rest_ms = 0;                             // of what has no choice: stem, head, places that are filled in
  std::vector<std::vector<double>> choices_ms{};  // of each open place, in the order of choices_at()

  // Of the net with these choices. REQUIRES: as filled().
  double of(const std::vector<std::size_t>& chosen) const;

  Json json() const;
  // Throws Error{kDamaged | kUnsupported} with `where`.
  static LatencyTable from_json(const Json& json, const std::string& where);
};

// The choices at the open places of `net`, place by place.
std::vector<std::vector<std::optional<BlockChoice>>> choices_of(const BlockNet& net);

}  // namespace muster::zoo
