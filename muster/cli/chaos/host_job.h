// A job on hosts that chaos makes for it (launch/namespace_hosts.h), run as people run it: muster train --listen on the
// first, muster agent --join on the others with certificates between them, muster attach where the coordinator's host
// was lost. On whichever host coordinates a process looks at the job (look.h).
//
// What the programs print is kept in files of the caller: the hosts' own files go with them. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/temporary_folder.h"
#include "muster/cli/chaos/checks.h"
#include "muster/cli/chaos/look.h"
#include "muster/launch/namespace_hosts.h"
#include "muster/trainer/job.h"

namespace muster::cli {

class HostJob {
 public:
  // Starts everything. What is printed goes to files in `logs`. Throws Error{kResource, kIo}.
  HostJob(int hosts, const trainer::ResolvedJob& job, std::filesystem::path logs);
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;
  ~HostJob();

  int size() const { return static_cast<int>(places_.size()); }
  launch::Hosts& hosts() { return hosts_; }
  // Which host coordinates, or is to.
  int coordinator() const { return coordinator_; }
  // The newest looks of the host that coordinates.
  std::vector<Look> looks();

  // SIGKILL of all processes of a host.
  void kill(int host);
  // The host comes back: its agent joins as a new one does. `wiped`: with nothing of the run on its disk.
  void come_back(int host, bool wiped);
  // Another host is to coordinate. It may be refused for a while, as long as somebody answers there: tend() tries
  // again.
  void take_over(int host);
  // What has to be done again and again. Agents that ended though nobody had killed them are noted, and started anew.
  void tend();
  const std::vector<std::string>& deserters() const { return deserters_; }

  // Whether who coordinates has ended by itself.
  bool over();
  // How: its exit code. REQUIRES: over().
  int exit_code();
  // muster stop, on the host that coordinates. False: it was not taken.
  bool stop();
  // Until all agents have ended; those that do not are killed, and named as leftovers.
  std::vector<std::string> wait_for_agents(std::chrono::seconds limit);
  // What a job that is over has left on the hosts: processes, sockets, shared memory, temporary folders, checkpoints
  // that were begun. Looking ends with it.
  std::vector<std::string> leftovers();

  // The run's folder there, if there is one.
  std::optional<std::filesystem::path> run(int host);
  // Bytes of what the workers there have recorded of their lanes.
  std::uintmax_t ledger_bytes(int host);
  // The weights of one worker on one host at `step`, of a run that nobody disturbs. Throws kTimeout, kPeerLost.
  StoredWeights undisturbed(std::uint64_t step, std::chrono::seconds limit);
  // Copies of the texts in all run folders, beside what the programs have printed.
  void keep_logs();

 private:
  struct Place {
    std::optional<launch::HostProgram> program{};  // train, attach or agent
    std::string role{};                            // of the program
    std::optional<launch::HostProgram> former{};   // the agent that attach ends
    std::optional<launch::HostProgram> looker{};
    std::optional<LookReader> reader{};
  };

  Place& place(int host) { return places_[static_cast<std::size_t>(host)]; }
  std::string address(int host);
  void give_files(const trainer::ResolvedJob& job);
  void start(int host, const std::string& role, std::vector<std::string> arguments);
  void start_agent(int host);
  void start_looking(int host);
  // What the programs there have printed is kept, and they are ended and forgotten.
  void forget(int host);
  void keep(int host, const std::string& role, std::optional<launch::HostProgram>& program);
  void start_attach(int host);

  const std::string name_;
  const std::filesystem::path logs_;
  const bool ledger_;
  launch::Hosts hosts_;
  std::vector<Place> places_;
  int coordinator_ = 0;
  bool coordinates_ = true;  // it has been seen to, since it is to
  double attached_ = 0;      // when that was tried last
  std::vector<std::string> deserters_;
};

}  // namespace muster::cli
