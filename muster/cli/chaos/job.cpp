// The program is started through a shell that becomes it, with both outputs in a file: what it printed outlives it, and
// its end is what people are told when the job did not come far.
#include "muster/cli/chaos/job.h"

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/runs.h"
#include "muster/cli/workers.h"
#include "muster/control/access_token.h"
#include "muster/control/job_record.h"
#include "muster/control/job_store.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kPause{50};
constexpr std::size_t kMostOfLog = 2000;
constexpr std::size_t kMostRuns = 5;  // others may begin at the same time

launch::Command command_for(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  // The shell becomes the program, after it has turned both outputs into the log.
  launch::Command command{"sh", {"-c", R"(exec "$@" >>"$0" 2>&1)", log.string(), own_program()}, {}};
  command.arguments.insert(command.arguments.end(), arguments.begin(), arguments.end());
  command.own_group = true;
  return command;
}

std::string end_of(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  return all.size() <= kMostOfLog ? all : all.substr(all.size() - kMostOfLog);
}

bool coordinates(pid_t pid, const std::filesystem::path& run) {
  try {
    if (!control::has_record(run)) return false;
    const control::JobRecord record(control::open_record_store(run));
    const std::optional<control::Lease> lease = record.lease();
    return lease && lease->holder.pid == pid && lease->holder == process_of(pid);
  } catch (const Error&) {
    return false;  // it is being made
  }
}

}  // namespace

StartedProgram::StartedProgram(const std::vector<std::string>& arguments, std::filesystem::path log)
    : log_(std::move(log)), process_(command_for(arguments, log_)) {
}

bool StartedProgram::wait(const Deadline& deadline) {
  while (runs()) {
    if (deadline.passed()) return false;
    system_clock().sleep_for(kPause);
  }
  return true;
}

bool StartedProgram::stop(const Deadline& deadline) {
  process_.kill(SIGTERM);
  if (wait(deadline)) return true;
  process_.kill(SIGKILL);
  return false;
}

std::filesystem::path StartedProgram::find_run(const std::filesystem::path& runs, const Deadline& deadline) {
  for (;;) {
    const bool running = this->runs();
    std::vector<std::filesystem::path> newest = list_runs(runs);
    newest.resize(std::min(newest.size(), kMostRuns));
    for (const std::filesystem::path& run : newest)
      if (coordinates(pid(), run)) return run;
    if (!running)
      throw Error(ErrorKind::kPeerLost, "the job ended before it could be looked at", log_.string(),
                  "The end of its log:\n" + end_of(log_));
    if (deadline.passed())
      throw Error(ErrorKind::kTimeout, "the job has not begun to train", log_.string(), "Its log says more.");
    system_clock().sleep_for(kPause);
  }
}

}  // namespace muster::cli
