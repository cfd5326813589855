// The batch script of a job for Slurm: one task a node, a signal before the time is over, and a requeue after which the
// job goes on by itself. A text, no effects.
#pragma once

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
  std::vector<std::string> options{};  // more of sbatch's, "--account=physics"
  std::vector<std::string> command{};  // what srun starts on each node
};

// Throws Error{kInvalidInput} for words with a line break: they would end a line of the script.
std::string slurm_script(const SlurmJob& job);

}  // namespace muster::launch
