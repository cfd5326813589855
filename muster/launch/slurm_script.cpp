// What the script decides after a stop is little, and stands in it for everybody to read: exit code 138 is SIGUSR1 and
// thus the time limit; 143 with a time of preemption is a preemption, which Slurm would otherwise take for the end of
// the job. A job that somebody stops or cancels is not started again.
#include "muster/launch/slurm_script.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/launch/ssh_hosts.h"

namespace muster::launch {
namespace {

constexpr const char* kAfterwards = R"(
preempted() { scontrol show job -o "$SLURM_JOB_ID" | grep -q ' PreemptTime=[0-9]'; }
if [ "$code" -eq 138 ] || { [ "$code" -eq 143 ] && preempted; }; then
  echo "time is over or another job comes first: a checkpoint is written, and the job goes on later"
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
)";

void require_line(const std::string& text) {
  if (text.find_first_of("\r\n") != std::string::npos)
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" has a line break", excerpt(text)));
}

}  // namespace

std::string slurm_script(const SlurmJob& job) {
  std::string script = "#!/bin/bash\n";
  const auto option = [&](const std::string& text) {
    require_line(text);
    script += fmt::format("#SBATCH {}\n", text);
  };
  option("--job-name=" + job.name);
  option(fmt::format("--nodes={}", job.nodes));
  option("--ntasks-per-node=1");
  option(fmt::format("--cpus-per-task={}", job.cores));
  if (!job.time.empty()) option("--time=" + job.time);
  if (!job.partition.empty()) option("--partition=" + job.partition);
  option(fmt::format("--signal=USR1@{}", job.warning_seconds));
  option("--requeue");
  option("--open-mode=append");
  option(fmt::format("--output={}-%j.log", job.name));
  for (const std::string& more : job.options)
    option(more);
  script += "# By muster launch slurm: a task on each node; the first coordinates, the others are its agents.\n";
  std::string words;
  for (const std::string& word : job.command) {
    require_line(word);
    words += " " + shell_word(word);
  }
  script += fmt::format("code=0\nsrun --ntasks-per-node=1 --cpus-per-task={}{} || code=$?\n", job.cores, words);
  return script + (kAfterwards + 1);
}

}  // namespace muster::launch
