// ControlServer: the service of a coordinator, or of an agent that asks it, for `muster status`, `scale`, `stop` and
// `set` (proto/control.proto).
//
// It listens on an abstract Unix socket with a random name, so no file is left behind, whatever ends the process, and
// no port is opened. The name is in the job's record. Connections of other users are closed unread (local_listener.h);
// of the rest, whoever has the run's token (access_token.h) may command. Refusals give a line in the log now and then.
// A command is durable in the record before it is acknowledged. Requests are at most 16 KiB, metadata 4 KiB; 8 threads
// at most serve them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/control/control_calls.h"
#include "muster/control/job_record.h"
#include "muster/control/recorded_calls.h"

namespace muster::control {

class ControlServer {
 public:
  // Makes a new token in the run's folder, listens, and puts its address into the record. Throws kIo, kResource,
  // and as JobRecord. REQUIRES: `record` holds the lease; `record`, `log` and `clock` outlive the server.
  ControlServer(JobRecord& record, const std::filesystem::path& run, ControlCallbacks callbacks, Log& log,
                const Clock& clock = system_clock());
  // The same with answers of somebody else's, which outlives the server.
  ControlServer(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run, Log& log,
                const Clock& clock = system_clock());
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Calls in work get a second to end.
  ~ControlServer();

  const std::string& address() const;

 private:
  struct Parts;
  void listen(ControlCalls& calls, JobRecord& record, const std::filesystem::path& run);

  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
