// `muster train` as tests run it: its arguments, the processes it consists of, what it prints, and faults inside it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "support/program.h"

namespace muster::testing {

// The arguments of a run of job.toml. `more` are flags ("--resume") and assignments ("job.epochs=2").
inline std::vector<std::string> train_arguments(const std::string& workers, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"train", "job.toml", "--json", "--set", "parallel.workers=" + workers};
  for (const std::string& argument : more) {
    if (!argument.starts_with("--")) all.emplace_back("--set");
    all.push_back(argument);
  }
  return all;
}
inline std::vector<std::string> train_arguments(int workers, const std::vector<std::string>& more = {}) {
  return train_arguments(std::to_string(workers), more);
}

// What the programs that are started meanwhile do at failpoints.
class Failpoints {
 public:
  explicit Failpoints(const std::string& rules) { ::setenv("MUSTER_FAILPOINTS", rules.c_str(), 1); }
  Failpoints(const Failpoints&) = delete;
  Failpoints& operator=(const Failpoints&) = delete;
  ~Failpoints() { ::unsetenv("MUSTER_FAILPOINTS"); }
};

// The processes that a program started, as the kernel tells.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", parent, parent));
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;)
    children.push_back(child);
  return children;
}

// The program first, so that it cannot replace its workers, which would go on without it.
inline Finished kill_everything(Program& program) {
  const std::vector<pid_t> workers = children_of(program.pid());
  program.signal(SIGKILL);
  const Finished end = program.wait();
  for (const pid_t worker : workers)
    ::kill(worker, SIGKILL);
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  for (const pid_t worker : workers)
    while (state_of(process_of(worker)) != ProcessState::kGone && process_of(worker).start_time != 0 &&
           !deadline.passed())
      system_clock().sleep_for(std::chrono::milliseconds(1));
  return end;
}

// The file may still have what a program before printed: wait for something that only this one prints.
inline void wait_until_printed(const Program& program, const std::string& text) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  while (program.out().find(text) == std::string::npos && !deadline.passed())
    system_clock().sleep_for(std::chrono::milliseconds(2));
  ASSERT_NE(program.out().find(text), std::string::npos) << program.out();
}

}  // namespace muster::testing
