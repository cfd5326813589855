// Flags of jobs of several hosts: where the coordinator listens, where an agent joins, and by what they trust each
// other: certificates of one authority (--certs), TLS and a token, or nothing, which is for loopback and --insecure.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "muster/comm/gloo_transport.h"
#include "muster/control/cluster_client.h"
#include "muster/control/cluster_server.h"
#include "muster/control/trust_options.h"

namespace muster::cli {

struct ClusterFlags {
  std::string listen;              // ADDRESS:PORT
  std::string join;                // ADDRESS:PORT
  std::string interface;           // to the other hosts; empty: as the job says
  std::string hosts{};             // to be reached by ssh: "a:4,b:4"; empty: none
  std::string host_file{};         // the same, a line for each
  std::string remote_muster{};     // where the program is on the others
  std::filesystem::path bundle{};  // to be copied to those that have none
  std::string shared{};            // a folder that all nodes of a launcher see; empty: the folder of runs
  control::TrustOptions trust;
  bool insecure = false;
  bool over_mpi = false;  // sums of gradients, which the job says (parallel.network); no flag

  bool by_ssh() const { return !hosts.empty() || !host_file.empty(); }
};

void add_listen_flags(CLI::App& command, ClusterFlags& flags);
// Of commands that a launcher may start on several nodes at once (launched.h).
void add_node_flags(CLI::App& command, ClusterFlags& flags);
void add_join_flags(CLI::App& command, ClusterFlags& flags);
// Of a command that can be either side.
void add_either_flags(CLI::App& command, ClusterFlags& flags);

// Whether --hosts names them, for ssh; else it is a number or a range, as --listen has it.
bool names_hosts(const std::string& hosts);
// --host-file, --remote-muster and --bundle, beside a --hosts that names some.
void add_ssh_flags(CLI::App& command, ClusterFlags& flags);

// A file or folder of those who are to be trusted. Nothing that is given may count as not given.
CLI::Option* add_trust_file(CLI::App& command, const std::string& name, std::filesystem::path& file,
                            const std::string& help);
// Throws kInvalidInput for --insecure beside something that protects.
void require_one_word(const control::TrustOptions& trust, bool insecure);

// Throws kUnsupported when Gloo is missing: what workers of several hosts say to each other goes through it.
void require_network(const std::optional<comm::MissingGloo>& missing);

// Throw kUnsupported in a build that cannot span hosts, kInvalidInput for what is no address, for one that others can
// reach with nothing to tell friend from foe, and for --insecure beside something that protects.
control::ClusterListen listen_by(const ClusterFlags& flags);
control::ClusterTarget join_by(const ClusterFlags& flags);

}  // namespace muster::cli
