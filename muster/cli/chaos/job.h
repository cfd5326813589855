// A job that chaos starts by itself: muster train, or muster attach, as a child process with a log file.
//
// Thread safety: one thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/deadline.h"
#include "muster/launch/child_process.h"

namespace muster::cli {

class StartedProgram {
 public:
  // `arguments` for this same program. Its output goes to the end of `log`. Killed at the end of the scope.
  StartedProgram(const std::vector<std::string>& arguments, std::filesystem::path log);

  pid_t pid() const { return process_.pid(); }
  bool runs() { return !process_.poll(); }
  // Asks it to stop, and waits. False: it had to be killed.
  bool stop(const Deadline& deadline);
  bool wait(const Deadline& deadline);

  // The run in `runs` that it coordinates, as soon as there is one. Throws kPeerLost (it ended before; with the end of
  // its log), kTimeout.
  std::filesystem::path find_run(const std::filesystem::path& runs, const Deadline& deadline);

 private:
  std::filesystem::path log_;
  launch::ChildProcess process_;
};

}  // namespace muster::cli
