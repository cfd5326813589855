// What a rank calls: enough to tell whether all ranks of a group make the same call, and to name the one that does not.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/comm/element.h"

namespace muster::comm {

enum class Operation : std::uint8_t {
  kNone,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kSplit,
  kShare,
  kSend,
  kReceive,
};

std::string_view to_string(Operation operation);

// Sent and shared as bytes between processes of one build: fixed size, no padding left to chance.
struct Call {
  std::uint64_t sequence = 0;  // the group's collectives are numbered from 1
  std::uint64_t count = 0;     // elements a rank gives (all_reduce, all_gather, ...) or gets for each rank (scatter)
  Operation operation = Operation::kNone;
  ElementType type = ElementType::kUint8;
  Reduction reduction = Reduction::kSum;
  std::uint8_t shared_array = 0;  // which of the group's shared arrays the data is in, if it is; 0: in none
  std::int32_t root = -1;         // -1: the operation has none; in a shared array: the element where the data begins

  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 24);

// "all_reduce #12 of 1000 float, sum".
std::string to_string(const Call& call);

// The text for ranks that disagree, rank by rank: "rank 0: all_reduce #3 of 5 float, sum; rank 1: broadcast #3 ...".
// A call whose operation is kNone is one that rank has not made yet.
std::string describe_mismatch(std::span<const Call> calls_by_rank);

}  // namespace muster::comm
