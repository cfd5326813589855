// Calls as people read them, and the list that names who made another one than most.
// Pure functions.
#include "muster/comm/call.h"

#include <fmt/format.h>

namespace muster::comm {

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::kNone:
      return "nothing";
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kGather:
      return "gather";
    case Operation::kScatter:
      return "scatter";
    case Operation::kBarrier:
      return "barrier";
    case Operation::kSplit:
      return "split";
    case Operation::kShare:
      return "share";
    case Operation::kSend:
      return "send";
    case Operation::kReceive:
      return "receive";
  }
  return "unknown";
}

std::string to_string(const Call& call) {
  std::string text = fmt::format("{} #{}", to_string(call.operation), call.sequence);
  if (call.operation == Operation::kBarrier || call.operation == Operation::kSplit) return text;
  text += fmt::format(" of {} {}", call.count, to_string(call.type));
  if (call.operation == Operation::kAllReduce || call.operation == Operation::kReduceScatter)
    text += fmt::format(", {}", to_string(call.reduction));
  if (call.shared_array != 0)
    text += fmt::format(", from element {} of shared array {}", call.root, call.shared_array);
  else if (call.root >= 0)
    text += fmt::format(", root {}", call.root);
  return text;
}

std::string describe_mismatch(std::span<const Call> calls_by_rank) {
  std::string text;
  for (std::size_t rank = 0; rank < calls_by_rank.size(); ++rank) {
    const Call& call = calls_by_rank[rank];
    text += fmt::format("{}rank {}: {}", rank == 0 ? "" : "; ", rank,
                        call.operation == Operation::kNone ? "has not called yet" : to_string(call));
  }
  return text;
}

}  // namespace muster::comm
