// Asked by the process that coordinates, which has to know the run before it starts anybody, and by the first worker,
// which may have no coordinator.
#include "muster/trainer/run_start.h"

#include <optional>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::trainer {
namespace {

RunFolder newest_of(const Job& job) {
  if (std::optional<RunFolder> newest = RunFolder::newest(job.runs, job.name)) return *newest;
  throw Error(ErrorKind::kNotFound, fmt::format("no run of \"{}\" to resume", job.name), job.runs,
              "Start one without --resume.");
}

}  // namespace

RunFolder find_resumed(const ResolvedJob& resolved, const std::filesystem::path& run) {
  RunFolder folder = run.empty() ? newest_of(resolved.job) : RunFolder::open(run);
  if (const std::optional<Error> obstacle = resume_obstacle(folder.job(), resolved))
    throw Error(obstacle->kind(), obstacle->message(), folder.job_file().string(), obstacle->remedy());
  return folder;
}

}  // namespace muster::trainer
