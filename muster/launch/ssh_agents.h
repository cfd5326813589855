// Agents of a job on other machines, started by the system's ssh: keys, ~/.ssh/config and jump hosts count as always.
//
// A connection to each machine carries the agent's certificates, its output and its end: when this object goes the
// agents are told to, and when a connection breaks the agent there leaves the job.
// Thread safety: one thread at a time, the one that has made it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/launch/child_process.h"
#include "muster/launch/ssh_hosts.h"

namespace muster::launch {

struct SshOptions {
  std::string program = "ssh";
  std::filesystem::path bundle{};  // of muster bundle, copied to machines that have no muster; empty: none is
  std::function<void(const std::string&)> tell = [](const std::string&) {};  // hears where it is copied to
};

// How ssh reaches a machine, by its configuration ("ssh -G").
struct SshWay {
  std::string host;    // the name or address behind an alias
  bool direct = true;  // not through another machine
};
// Throws kNotFound (there is no ssh) and kInvalidInput (it does not understand the name).
SshWay ssh_way(const std::string& host, const SshOptions& options);

class SshAgents {
 public:
  explicit SshAgents(SshOptions options) : options_(std::move(options)) {}
  SshAgents(const SshAgents&) = delete;
  SshAgents& operator=(const SshAgents&) = delete;
  // Those that live are told to end, and have 10 s for it.
  ~SshAgents();

  // `certs`: an agent's folder; empty: none. Throws kNotFound, kResource, kIo.
  void start(const NamedHost& host, RemoteAgent agent, const std::filesystem::path& certs);
  // The first that has ended badly, in words, as an error; nothing: none has.
  std::optional<Error> lost();
  // Until all have ended; those that have not when the deadline passes are ended.
  void wait(const Deadline& deadline);

 private:
  struct Agent {
    std::string host;
    ChildProcess process;
    FileDescriptor line;  // its standard input
  };
  // Sees to it that the machine has the bundle, if it has no program for that agent.
  void bring_bundle(const std::string& host, RemoteAgent& agent);

  const SshOptions options_;
  std::string bundle_sums_;  // the sha256 of its SHA256SUMS, once it is known
  std::vector<Agent> agents_;
};

}  // namespace muster::launch
