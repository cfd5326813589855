// What `muster status` shows of a job at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/base/process.h"
#include "muster/control/job_record.h"

namespace muster::control {

struct MemberStatus {
  int rank = 0;
  ProcessId process;
  std::string state;  // "running", "starting", "stopped", ...
  int restarts = 0;
  std::optional<std::uint64_t> lane = {};
  std::optional<std::uint64_t> step = {};
  std::string waits_for = {};  // in words; empty: it computes
  double seconds = 0;          // since when it has been doing so
};

struct JobStatus {
  std::string job = {};
  std::string run = {};     // the folder
  std::string state = {};   // to_string(JobPhase)
  std::string reason = {};  // for the state, in words
  std::uint64_t generation = 0;
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  std::uint64_t epoch = 0;
  double samples_per_second = 0;
  int min_workers = 0;
  int max_workers = 0;
  int target_workers = 0;
  int min_servers = 0;  // processes of parameter servers; all 0: the job has none
  int max_servers = 0;
  int target_servers = 0;
  int servers = 0;          // that serve; known only while the coordinator answers
  int leaving_servers = 0;  // that still have to hand over what they hold
  std::vector<MemberStatus> members = {};
  std::vector<Change> changes = {};  // from the record, whoever answers
  std::vector<std::string> alarms = {};
  std::int32_t coordinator_pid = 0;  // 0: none runs
  bool live = false;                 // told by the coordinator itself; false: what its record says
};

Json to_json(const JobStatus& status);

}  // namespace muster::control
