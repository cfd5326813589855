// A team of processes that takes part in a benchmark, from its parent's side.
//
// The first process of a team takes its turn when a line arrives on its standard input, and answers with one line of
// JSON; the others follow it, and sleep meanwhile. A team ends when its input ends. No torch here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/json.h"
#include "muster/cli/bench/bench.h"
#include "muster/launch/child_process.h"

namespace muster::cli {

// A turn as the first process of a team tells it.
Json to_json(const StepTimes& times);

// How a team is reached whose processes somebody else has started and ends.
struct TeamChannel {
  FileDescriptor commands;
  FileDescriptor answers;
  std::function<void()> look;  // throws when they have ended
};

class Team {
 public:
  // `name` stands for the team in messages and rows. Throws kResource or kIo.
  Team(std::string name, std::int64_t workers);
  Team(std::string name, std::int64_t workers, TeamChannel channel);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  // Lets the processes end by themselves; what has not ended then is killed.
  ~Team();

  // Starts the next process; the first is rank 0.
  void start(launch::Command command, std::int64_t rank);
  // One turn, to its answer. Throws kPeerLost when the process has ended, kTimeout after ten minutes.
  Json ask();
  // The same, and keeps the answer's times.
  void take_turn();

  const std::string& strategy() const { return name_; }
  std::int64_t workers() const { return workers_; }
  const StepTimes& times() const { return times_; }
  const Json& told() const { return told_; }  // all of the last turn's answer
  double state_bytes() const { return state_bytes_; }
  const std::vector<double>& of_speeds() const { return of_speeds_; }
  const std::vector<double>& slow_share() const { return slow_share_; }
  std::int64_t memory_kb() const;

 private:
  [[noreturn]] void throw_lost() const;
  std::string read_line();

  std::string name_;
  std::int64_t workers_;
  FileDescriptor commands_, answers_, child_input_, child_output_;
  std::string buffer_;
  StepTimes times_;
  Json told_;
  double state_bytes_ = 0;
  std::vector<double> of_speeds_, slow_share_;  // of each turn
  std::vector<launch::ChildProcess> processes_;
  std::function<void()> look_ = [] {};
};

}  // namespace muster::cli
