// A standby: a process that takes over a job by itself when its coordinator is gone, where the record is in an etcd and
// so says for certain who leads. What is looked at is read again and again; what follows is decided here, purely.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/control/job_record.h"

namespace muster::coordinator {

// Nobody leads for so long before a standby tries to: a coordinator that has lost its session because the etcd was away
// looks more often (lead_keeper.h), and goes on.
constexpr std::chrono::milliseconds kCourtesy{900};

struct StandbyView {
  Clock::Instant now{};
  bool answered = false;                         // the store, at this look
  std::optional<control::Lease> lease{};         // nothing: nobody has ever led
  bool led = false;                              // a session of some leader lasts
  control::Standing standing{};                  // where the job stood
  std::optional<Clock::Instant> vacant_since{};  // at every look since then the store has answered and nobody has led
};
enum class StandbyStep { kWait, kTakeOver, kEnd };
struct StandbyDecision {
  StandbyStep step = StandbyStep::kWait;
  std::string reason;
};
StandbyDecision decide_standby(const StandbyView& view);

struct StandbyOptions {
  std::function<void(const std::string&)> tell = [](const std::string&) {};
  // Whether to give up waiting; asked at every look.
  std::function<bool()> stop_requested = [] { return false; };
};

// Until this process leads: the lease of whoever led before. Nothing: the job is over, or a stop was requested; `tell`
// has said which. Throws kInvalidInput when the etcd refuses.
std::optional<control::Lease> stand_by(control::JobRecord& record, const StandbyOptions& options,
                                       const Clock& clock = system_clock());

}  // namespace muster::coordinator
