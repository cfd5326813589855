// What a job leaves on the machine while it runs, so that it can be looked for when it is over.
//
// A machine has other jobs, so names alone tell nothing: what counts are the processes that the job's status named, the
// folder that these were told of (MUSTER_STORE in their environment), and the sockets that they held open.
// Thread safety: one thread.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/process.h"

namespace muster::cli {

class Footprints {
 public:
  // `run` is the job's folder. What lies in `shared_memory` now is not of this job.
  explicit Footprints(std::filesystem::path run, std::filesystem::path shared_memory = "/dev/shm");

  // A process of the job. Cheap for one that is known.
  void add(const ProcessId& process);
  // The folder in which its workers find each other, which lies in the one that the job made for itself.
  void add_store(const std::filesystem::path& store);
  // Looks which sockets its processes hold. To be called now and then.
  void look();

  // What of all that is still there, in words; also processes of the job that no status ever named, and checkpoints
  // that were begun and left. Empty: nothing.
  std::vector<std::string> left() const;

 private:
  const std::filesystem::path run_;
  const std::filesystem::path shared_memory_;
  const std::set<std::string> shared_before_;
  std::map<std::int32_t, ProcessId> processes_;  // the newest of each number
  std::vector<ProcessId> earlier_;               // others of the same numbers
  std::set<std::string> folders_;
  std::set<std::string> sockets_;
};

}  // namespace muster::cli
