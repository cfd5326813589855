// This host's part in a job that another one coordinates, as `muster agent` and nodes that a launcher has started run
// it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "muster/cli/cluster_flags.h"
#include "muster/cli/store_flags.h"

namespace muster::cli {

struct AgentFlags {
  ClusterFlags cluster;
  std::optional<int> workers;
  std::string name;
  double wait_seconds = 60;
  std::string runs = "runs";  // folder for the runs of programs
  // Of an agent that stands by: the etcd, where it listens then, and as whom. Empty: it does not.
  StoreFlags store;
  std::string listen;
  std::filesystem::path listen_certs;
  // A signal to this process is one to all hosts (coordinator::AgentOptions).
  bool together = false;
};

// Until the job is over or this host leaves it; the exit code. Throws as coordinator::Agent::run and join_by().
int run_agent(const AgentFlags& flags);

}  // namespace muster::cli
