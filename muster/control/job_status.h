// What `muster status` shows of a job at one moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/control/job_record.h"
#include "muster/control/worker.h"

namespace muster::control {

// A host of a job of several.
struct HostStatus {
  std::uint64_t number = 0;
  std::string name = {};
  int workers = 0;  // that train
  std::uint64_t first_lane = 0;
  std::uint64_t last_lane = 0;                   // one past; as the first: it takes no part yet
  std::uint64_t step = 0;                        // committed there
  double silent_seconds = 0;                     // since it was heard of
  std::string place = {};                        // what its folder is to the run (LeaderNote); empty: not known
  std::optional<std::uint64_t> checkpoint = {};  // the step of the newest one there
  std::string alarm = {};                        // what is wrong with checkpoints there; empty: nothing
  bool operator==(const HostStatus&) const = default;
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
  int servers = 0;                     // that serve; known only while the coordinator answers
  int leaving_servers = 0;             // that still have to hand over what they hold
  std::vector<Worker> members = {};    // on the host that was asked
  std::vector<HostStatus> hosts = {};  // of a job of several; known only while the coordinator answers
  std::uint64_t job_generation = 0;    // of all hosts; 0: the job has one, or none has begun
  std::vector<Change> changes = {};    // from the record, whoever answers
  std::string coordinator_host = {};   // its name; empty: the job has one host
  std::string started = {};            // by what its hosts were started and how that is known; empty: by nothing
  std::vector<std::string> alarms = {};
  std::int32_t coordinator_pid = 0;  // 0: none runs
  bool live = false;                 // told by the coordinator itself; false: what its record says
};

Json to_json(const JobStatus& status);

}  // namespace muster::control
