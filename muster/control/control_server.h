// ControlServer: the coordinator's service for `muster status`, `scale`, `stop` and `set` (proto/control.proto).
//
// It listens on an abstract Unix socket with a random name, so no file is left behind, whatever ends the process, and
// no port is opened. The name is in the job's record. Connections of other users are closed unread (local_listener.h);
// of the rest, whoever has the run's token (access_token.h) may command. Refusals give a line in the log now and then.
// A command is durable in the record before it is acknowledged. Requests are at most 16 KiB, metadata 4 KiB; 8 threads
// at most serve them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"

namespace muster::control {

// Called on threads of the server, several at once; they must not block for long.
struct ControlCallbacks {
  std::function<JobStatus()> status;
  // A command was stored, or one that was stored before was answered again: look at the record.
  std::function<void()> command_stored = [] {};
  // Throws Error{kInvalidInput} saying why a change ("optimizer.lr=0.1") is not possible.
  std::function<void(const std::string& assignment)> check_change = [](const std::string&) {};
};

class ControlServer {
 public:
  // Makes a new token in the run's folder, listens, and puts its address into the record. Throws kIo, kResource,
  // and as JobRecord. REQUIRES: `record` holds the lease; `record`, `log` and `clock` outlive the server.
  ControlServer(JobRecord& record, const std::filesystem::path& run, ControlCallbacks callbacks, Log& log,
                const Clock& clock = system_clock());
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Calls in work get a second to end.
  ~ControlServer();

  const std::string& address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::control
