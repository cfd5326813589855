// Commands that start workers: what they have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "muster/launch/child_process.h"
#include "muster/trainer/job.h"

namespace muster::cli {

// The path of this program.
std::string own_program();

struct SupervisedJob {
  std::string name;
  std::string text;  // the job file with every default; empty: the workers are a user's program
  int least_workers = 1;
  int most_workers = 1;
  std::chrono::duration<double> grace{};
  std::chrono::duration<double> liveness{2};  // this and the next two: launch/supervisor.h
  std::chrono::duration<double> hang{10};
  std::chrono::duration<double> start{600};
  std::function<std::string(std::uint64_t step, int lane)> describe_lane;  // launch/supervisor.h
  int servers = 0;                                                         // this and the next: launch/supervisor.h
  bool workers_serve = false;
  int copies = 1;  // of every part of the model
  // Makes the folder of the job's record, where the workers have none of their own to name.
  std::function<std::string()> make_run{};
};

// Of a job file.
SupervisedJob supervised_job(const trainer::ResolvedJob& resolved);

// Starts the workers of `job`, processes of `command`, passes SIGINT and SIGTERM on to them, and stays until all have
// ended. A worker that is lost is replaced and the job goes on, unless its workers have made a group that nobody can
// join later; commands reach it. Gives the exit code that this process should end with. Throws as Supervisor::run.
int supervise_workers(const launch::Command& command, const SupervisedJob& job);

// Goes on in the place of a coordinator that is gone, until the job has ended. Throws kMismatch (it is not gone),
// kNotFound (the run says nothing of its workers), kPeerLost (no worker lives), and as supervise_workers.
int take_over_workers(const std::filesystem::path& run);

}  // namespace muster::cli
