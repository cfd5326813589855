// How many trials run at once: what cores and memory allow. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster::cli {

struct TrialNeeds {
  std::int64_t workers = 1;
  std::int64_t threads = 1;              // of each worker
  std::optional<std::uint64_t> bytes{};  // of a trial, with the values that take most; empty: not known
};

struct Slots {
  std::size_t count = 1;
  std::string reason{};  // in words
};

// `asked`: by the study file; taken as it is, unless the memory does not suffice.
Slots decide_slots(const TrialNeeds& needs, int cores, std::uint64_t usable_bytes, std::optional<std::int64_t> asked);

}  // namespace muster::cli
