// `--hosts a:4,b:4`: the other hosts are reached by ssh from the one where it is typed, which coordinates and trains as
// well. Certificates are made for this job alone, and go to the others through ssh.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/temporary_folder.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/gathering.h"
#include "muster/launch/ssh_agents.h"

namespace muster::cli {

class SshGathering final : public Gathering {
 public:
  // Of `flags.hosts` or `flags.host_file`. Fills in what the flags leave open: where to listen, the interface, the
  // trust. Throws kInvalidInput (this machine is not among them, a list that is none), kNotFound (no ssh, no way).
  explicit SshGathering(ClusterFlags& flags);

  // All of them, this one too.
  int hosts() const { return static_cast<int>(others_.size()) + 1; }
  // This one as it was typed.
  const std::string& own_name() const { return own_name_; }
  // Its workers; nothing: as the job says.
  std::optional<int> own_workers() const { return own_workers_; }

  void prepare(coordinator::CoordinatedJob& job) override;
  void fail(const std::string&) override {}

  // What prepare() does for a job: has the others join at that address, by `muster COMMAND --join`.
  void start(const std::string& address, const std::string& command);
  // The first of them that has ended badly; nothing: none has.
  std::optional<Error> lost() { return agents_.lost(); }
  // Until they have ended, at most so long.
  void wait(const Deadline& deadline) { agents_.wait(deadline); }

 private:
  std::vector<launch::NamedHost> others_;
  std::string own_name_;
  std::optional<int> own_workers_;
  std::string remote_program_;
  std::string remote_interface_;
  std::optional<TemporaryFolder> trust_;  // certificates of both roles; nothing: --insecure
  launch::SshAgents agents_;
};

}  // namespace muster::cli
