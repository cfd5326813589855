// `muster train` as tests run it: a small job, its arguments, the processes it consists of, what it prints, and faults
// inside it.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "muster/base/process.h"
#include "support/eventually.h"
#include "support/program.h"

namespace muster::testing {

// The text of a job that trains in a moment: 8 steps an epoch, the last one short, in 4 lanes. `more` replaces and
// adds: "table.key=VALUE" with the value as TOML writes it; without a value the key goes.
inline std::string small_job(const std::string& name, const std::vector<std::string>& more = {}) {
  std::map<std::string, std::map<std::string, std::string>> tables{
      {"job", {{"name", fmt::format("\"{}\"", name)}, {"epochs", "2"}, {"lanes", "4"}}},
      {"data",
       {{"source", "\"synthetic\""},
        {"shape", "[1, 6, 6]"},
        {"samples", "500"},
        {"test_samples", "50"},
        {"batch", "64"}}},
      {"model", {{"name", "\"mlp\""}, {"hidden", "[16]"}}},
      {"optimizer", {{"name", "\"sgd\""}, {"lr", "0.02"}, {"momentum", "0.9"}}}};
  for (const std::string& line : more) {
    const std::size_t dot = line.find('.');
    const std::size_t sign = line.find('=');
    std::map<std::string, std::string>& table = tables[line.substr(0, dot)];
    const std::string key = line.substr(dot + 1, sign - dot - 1);
    table[key] = line.substr(sign + 1);
    if (table[key].empty()) table.erase(key);
  }
  std::string text;
  for (const auto& [table, keys] : tables) {
    text += fmt::format("[{}]\n", table);
    for (const auto& [key, value] : keys)
      text += fmt::format("{} = {}\n", key, value);
  }
  return text;
}

// The same with everything that has state: momentum, BatchNorm, dropout, a schedule.
inline std::string stateful_job(const std::string& name, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"data.shape=[1, 12, 12]", "data.test_samples=200", "model.name=\"cnn\"",
                               "model.hidden=", "optimizer.schedule=\"cosine\""};
  all.insert(all.end(), more.begin(), more.end());
  return small_job(name, all);
}

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

// That a run has ended with the bits of another one.
inline void expect_same_end(const Finished& result, const Json& expected, const std::string& what) {
  ASSERT_EQ(result.exit_code, 0) << what << "\n" << result.err;
  const Json actual = rows(result.out).back();
  for (const char* key : {"event", "step", "weights", "test_loss", "test_accuracy", "best_step", "best_loss"})
    EXPECT_EQ(actual.at(key), expected.at(key)) << key << ", " << what << "\n" << result.err;
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

// The program first, so that it cannot replace its workers, which would go on without it; and stopped before they are
// looked for, so that it starts no others after that.
inline Finished kill_everything(Program& program) {
  program.signal(SIGSTOP);
  EXPECT_TRUE(eventually([&] { return state_of(process_of(program.pid())) != ProcessState::kRunning; }));
  const std::vector<pid_t> workers = children_of(program.pid());
  program.signal(SIGKILL);
  const Finished end = program.wait();
  for (const pid_t worker : workers)
    ::kill(worker, SIGKILL);
  for (const pid_t worker : workers)
    EXPECT_TRUE(eventually(
        [&] { return state_of(process_of(worker)) == ProcessState::kGone || process_of(worker).start_time == 0; }));
  return end;
}

// The worker that has stopped itself, by a failpoint, once one has; 0 if none does. REQUIRES: a liveness time that is
// longer than the test.
inline pid_t wait_until_one_stops(const Program& program) {
  pid_t stopped = 0;
  EXPECT_TRUE(eventually([&] {
    for (const pid_t worker : children_of(program.pid()))
      if (state_of(process_of(worker)) == ProcessState::kStopped) stopped = worker;
    return stopped != 0;
  })) << "no worker has stopped: "
      << program.err();
  return stopped;
}

// The end of everything at that moment.
inline Finished kill_everything_when_one_stops(Program& program) {
  wait_until_one_stops(program);
  return kill_everything(program);
}

// The file may still have what a program before printed: wait for something that only this one prints.
inline void wait_until_printed(const Program& program, const std::string& text) {
  ASSERT_TRUE(eventually([&] { return program.out().find(text) != std::string::npos; })) << program.out();
}

}  // namespace muster::testing
