// Several may stand by: each tries, and the store lets one of them through. A store that does not answer makes nobody
// a leader, and what was seen before it fell silent does not count any more.
#include "muster/coordinator/standby.h"

#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kLookAtRecord{300};

bool may_pass(const Error& error) {
  return error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kResource || error.kind() == ErrorKind::kIo;
}

}  // namespace

StandbyDecision decide_standby(const StandbyView& view) {
  if (!view.answered) return {StandbyStep::kWait, "the job's store does not answer"};
  if (!view.lease) return {StandbyStep::kWait, "the job has not begun"};
  if (view.led)
    return {StandbyStep::kWait, fmt::format("process {} on {} coordinates the job (epoch {})", view.lease->holder.pid,
                                            view.lease->host, view.lease->epoch)};
  if (control::is_over(view.standing.phase))
    return {StandbyStep::kEnd, fmt::format("the job has {}", to_string(view.standing.phase))};
  if (!view.vacant_since || view.now - *view.vacant_since < kCourtesy)
    return {StandbyStep::kWait, "nobody coordinates the job"};
  return {StandbyStep::kTakeOver, fmt::format("its coordinator (process {} on {}) has lost its lease",
                                              view.lease->holder.pid, view.lease->host)};
}

std::optional<control::Lease> stand_by(control::JobRecord& record, const StandbyOptions& options, const Clock& clock) {
  std::optional<Clock::Instant> vacant_since;
  std::string told;
  while (!options.stop_requested()) {
    StandbyView view;
    try {
      view.led = record.is_led();
      view.lease = record.lease();
      // A try of this process whose answer was lost.
      if (view.lease && view.lease->holder == this_process() && view.lease->space == process_space()) view.led = false;
      view.standing = record.standing();
      view.answered = true;
    } catch (const Error& error) {
      if (!may_pass(error)) throw;
    }
    view.now = clock.now();
    if (!view.answered || view.led || !view.lease)
      vacant_since.reset();
    else if (!vacant_since)
      vacant_since = view.now;
    view.vacant_since = vacant_since;
    const StandbyDecision decision = decide_standby(view);
    if (std::exchange(told, decision.reason) != decision.reason) options.tell("standing by: " + decision.reason);
    if (decision.step == StandbyStep::kEnd) return std::nullopt;
    if (decision.step == StandbyStep::kTakeOver) {
      try {
        record.take_over(this_process());
        return view.lease;
      } catch (const Error& error) {
        // Another one was faster; or it is not known, and the next look tells.
        if (error.kind() != ErrorKind::kMismatch && !may_pass(error)) throw;
        vacant_since.reset();
      }
    }
    clock.sleep_for(kLookAtRecord);
  }
  return std::nullopt;
}

}  // namespace muster::coordinator
