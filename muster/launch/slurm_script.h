// The batch script of a job for Slurm: one task a node, a signal before the time is over, and a requeue after which the
// job goes on by itself. A text, no effects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::launch {

struct SlurmJob {
  std::string name{};
  int nodes = 1;
  int cores = 1;       // for each node's task
  std::string time{};  // as sbatch --time; empty: as the partition has it
  std::string partition{};
  int warning_seconds = 120;           // before the time is over: enough for a step and a checkpoint
  bool ranks_of_mpi = false;           // the tasks are to be ranks of one MPI
  std::vector<std::string> options{};  // more of sbatch's, "--account=physics"
  std::vector<std::string> command{};  // what srun starts on each node
};

// Throws Error{kInvalidInput} for words with a line break, which would end a line of the script, and for a time that is
// no longer than its warning: the job would be ended as soon as it has begun, each time.
std::string slurm_script(const SlurmJob& job);

// Seconds of a time as sbatch takes it: "90" (minutes), "90:00", "1:30:00", "1-12", "1-12:30", "1-12:30:00". Nothing:
// it is none of these, or no limit ("UNLIMITED").
std::optional<std::int64_t> slurm_seconds(const std::string& time);

}  // namespace muster::launch
