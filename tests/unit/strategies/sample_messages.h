// One request of every verb and one reply of every kind, every field with a value of its own: what a codec leaves out
// or mixes up shows.
#pragma once

#include <vector>

#include "muster/strategies/parameter_server/message.h"

namespace muster::strategies {

inline std::vector<Request> every_request() {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  const std::vector<Verb> verbs{
      PullRequest{.settled_step = 0, .seen_version = kHigh + 1},
      PullBuffersRequest{.settled_step = kHigh + 2},
      PullRowsRequest{.seen_version = 3},
      PushLaneRequest{kHigh + 4, 5, 6, 7, 0.8, -0.9, LaneManner::kKept, true},
      PushUpdateRequest{kHigh + 10, 11, 1.2, 1.3},
      PushRowsRequest{14, kHigh + 15, 1.6, 1.7, 18},
      PushEntryRequest{19, 20, 21, kHigh + 22, LaneManner::kSkipped, {2.3, 2.4, 25, kHigh + 26, 27}},
      RecordsRequest{28, kHigh + 29},
      ApplyRequest{30, kHigh + 31, 3.2, 3.3, true},
      CloseRequest{34, kHigh + 35, 3.6, true},
      LeaseRequest{Want::kSettled, kHigh + 37, 38, 39, 40, 41},
      ReopenRequest{},
      ReadRequest{kHigh + 42},
      WriteRequest{43, kHigh + 44},
      FillRequest{kHigh + 45, 46},
      KeepRequest{},
      ReportRequest{},
  };
  std::vector<Request> requests;
  for (const Verb& verb : verbs)
    requests.push_back({.generation = kHigh + requests.size(), .chunk = ~std::uint32_t{0}, .verb = verb});
  requests.push_back(requests[3]);
  requests.back().passed_on_for = 47;
  requests.push_back({});  // all that may be absent is
  return requests;
}

inline std::vector<Reply> every_reply() {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 63;
  const StepResult result{0.1, 0.2, kHigh + 3, 4, 0.5, 6, 7};
  return {{.status = Status::kWait, .generation = kHigh + 1, .version = 2},
          {.status = Status::kRefused},
          {.generation = 3, .version = kHigh + 4, .details = ReadReply{kHigh + 5}},
          {.details = LeaseReply{Grant::kFinish, 6, 7, kHigh + 8, 9, 10}},
          {.details = LeaseReply{Grant::kClosed, 0, 0, 0, 11, 12, result}},
          {.status = Status::kDuplicate, .details = ReportReply{13}}};
}

}  // namespace muster::strategies
