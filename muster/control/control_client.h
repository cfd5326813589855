// ControlClient: talks to the coordinator of a run, found from the run's folder alone.
//
// The address is in the job's record, the token in its file. Before the token is sent the client looks who listens: a
// process of the user who owns the token file, or nobody gets it. Without a coordinator status() tells what the record
// says and which workers still live, and commands throw kPeerLost.
// Thread safety: every method from any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "muster/base/deadline.h"
#include "muster/control/job_record.h"
#include "muster/control/job_status.h"

namespace muster::control {

class ControlClient {
 public:
  // Throws kNotFound when the run has no record, and as open_record_store (job_store.h).
  explicit ControlClient(std::filesystem::path run);

  // Never throws kPeerLost or kTimeout for a coordinator that is gone or does not answer: its record answers then, with
  // an alarm that says so.
  JobStatus status(const Deadline& deadline) const;

  // Commands: durable at the coordinator when they return. `request` makes a repeated call take effect once; within the
  // deadline the client repeats by itself. Throws kPeerLost (no coordinator, which the message explains), kTimeout (it
  // is not known whether the command took effect), and what the coordinator answers: kInvalidInput, kMismatch, ...
  WantedState scale(const Scaling& scaling, const Deadline& deadline, const std::string& request = new_request()) const;
  WantedState stop(const Deadline& deadline, const std::string& request = new_request()) const;
  Change set(const std::string& assignment, const Deadline& deadline, const std::string& request = new_request()) const;

  // What the run's folder itself says. Nobody needs a coordinator for that.
  const JobRecord& record() const { return record_; }

  // 128 random bits.
  static std::string new_request();

 private:
  template <typename Call>
  void call(const Deadline& deadline, const Call& call) const;
  JobStatus from_record(std::string alarm) const;

  const std::filesystem::path run_;
  const std::filesystem::path folder_;  // commands_folder.h
  const JobRecord record_;
};

}  // namespace muster::control
