// The calls of a job's commands as its coordinator answers them: checked, stored in the record one at a time, and told
// to the coordinator after that. Thread safety: every method from any thread.
#pragma once

#include <functional>
#include <string>

#include "muster/base/mutex.h"
#include "muster/control/control_calls.h"

namespace muster::control {

// Called on threads of whoever calls, several at once; they must not block for long.
struct ControlCallbacks {
  std::function<JobStatus()> status;
  // A command was stored, or one that was stored before was answered again: look at the record.
  std::function<void()> command_stored = [] {};
  // Throws Error{kInvalidInput} saying why a change ("optimizer.lr=0.1") is not possible.
  std::function<void(const std::string& assignment)> check_change = [](const std::string&) {};
};

class RecordedCalls final : public ControlCalls {
 public:
  // REQUIRES: `record` holds the lease, and outlives this object.
  RecordedCalls(JobRecord& record, ControlCallbacks callbacks) : record_(record), callbacks_(std::move(callbacks)) {}

  JobStatus status() override { return callbacks_.status(); }
  WantedState scale(const std::string& request, const Scaling& scaling) override;
  WantedState stop(const std::string& request) override;
  Change set(const std::string& request, const std::string& assignment) override;

 private:
  JobRecord& record_;
  const ControlCallbacks callbacks_;
  Mutex changing_;  // each change is checked against all that were stored before it
};

}  // namespace muster::control
