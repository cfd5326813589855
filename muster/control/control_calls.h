// What people and programs ask of a job (proto/control.proto), as an interface: the coordinator answers it from the
// job's record (recorded_calls.h), an agent of another host by asking the coordinator (coordinator/host_service.h).
//
// Commands are durable at the coordinator when they return. `request` makes a repeated call take effect once. Throws
// what JobRecord does; kPeerLost where nobody can answer now. Thread safety: every method from any thread.
#pragma once

#include <string>

#include "muster/control/job_record.h"
#include "muster/control/job_status.h"

namespace muster::control {

class ControlCalls {
 public:
  virtual ~ControlCalls() = default;

  virtual JobStatus status() = 0;
  virtual WantedState scale(const std::string& request, const Scaling& scaling) = 0;
  virtual WantedState stop(const std::string& request) = 0;
  virtual Change set(const std::string& request, const std::string& assignment) = 0;
};

}  // namespace muster::control
