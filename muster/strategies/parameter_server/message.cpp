#include "muster/strategies/parameter_server/message.h"

namespace muster::strategies {

std::string_view to_string(Verb verb) {
  switch (verb) {
    case Verb::kNone:
      return "none";
    case Verb::kPull:
      return "pull";
    case Verb::kPush:
      return "push";
    case Verb::kRead:
      return "read";
    case Verb::kWrite:
      return "write";
    case Verb::kFill:
      return "fill";
    case Verb::kRecords:
      return "records";
    case Verb::kApply:
      return "apply";
    case Verb::kPullRows:
      return "pull rows";
    case Verb::kPushRows:
      return "push rows";
    case Verb::kLease:
      return "lease";
    case Verb::kReport:
      return "report";
    case Verb::kReopen:
      return "reopen";
    case Verb::kKeep:
      return "keep";
  }
  return "unknown";
}

std::string_view to_string(Status status) {
  switch (status) {
    case Status::kDone:
      return "done";
    case Status::kDuplicate:
      return "duplicate";
    case Status::kLate:
      return "late";
    case Status::kStale:
      return "stale";
    case Status::kWait:
      return "wait";
    case Status::kRefused:
      return "refused";
  }
  return "unknown";
}

}  // namespace muster::strategies
