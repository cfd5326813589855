// A command is durable before the coordinator hears of it, and it hears of it before the caller does: so it acts on
// what the record says, and what was acknowledged survives it.
#include "muster/control/recorded_calls.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::control {
namespace {

constexpr std::size_t kMostAssignmentBytes = 1024;

}  // namespace

WantedState RecordedCalls::scale(const std::string& request, const Scaling& scaling) {
  const WantedState wanted = record_.scale(request, scaling);
  callbacks_.command_stored();
  return wanted;
}

WantedState RecordedCalls::stop(const std::string& request) {
  const WantedState wanted = record_.stop(request);
  callbacks_.command_stored();
  return wanted;
}

Change RecordedCalls::set(const std::string& request, const std::string& assignment) {
  if (assignment.size() > kMostAssignmentBytes)
    throw Error(ErrorKind::kInvalidInput, fmt::format("a change has at most {} bytes", kMostAssignmentBytes));
  const Change change = [&] {
    const MutexLock lock(changing_);
    callbacks_.check_change(assignment);
    return record_.change(request, assignment);
  }();
  callbacks_.command_stored();
  return change;
}

}  // namespace muster::control
