// Both ends ask for trust or for --insecure: one would take commands from anybody who connects, the other from whoever
// answers. One place for both, so that what protects one protects the other.
#include "muster/cli/cluster_flags.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

void add_common_flags(CLI::App& command, ClusterFlags& flags) {
  command.add_option("--interface", flags.interface,
                     "The network interface of this host to the others, as eth0; over parallel.interface");
  command.add_flag("--insecure", flags.insecure,
                   "Talk to other hosts without encryption, and to whoever connects: every machine that can reach the "
                   "address can run programs here");
}

}  // namespace

// Nothing that is given may count as not given: a variable of a script that is empty would take the protection away.
CLI::Option* add_trust_file(CLI::App& command, const std::string& name, std::filesystem::path& file,
                            const std::string& help) {
  const auto refuse_nothing = [](const std::string& value) { return value.empty() ? "is empty" : std::string(); };
  return command.add_option(name, file, help)->check(CLI::Validator(refuse_nothing, "PATH"));
}

void require_one_word(const control::TrustOptions& trust, bool insecure) {
  if (!insecure || !trust.any()) return;
  throw Error(ErrorKind::kInvalidInput, "--insecure beside --certs, --tls-... or --token", {},
              "Leave --insecure out: with the others hosts know each other.");
}

void add_listen_flags(CLI::App& command, ClusterFlags& flags) {
  CLI::Option* const listen =
      command.add_option("--listen", flags.listen,
                         "ADDRESS:PORT of this host at which agents of others join (parallel.hosts); port 0: any");
  control::TrustOptions& trust = flags.trust;
  for (CLI::Option* const option :
       {add_trust_file(command, "--certs", trust.certs,
                       "The coordinator's folder of muster certs create; agents have theirs"),
        add_trust_file(command, "--tls-cert", trust.tls_certificate,
                       "Instead of --certs: a certificate for this host that agents can check (PEM)"),
        add_trust_file(command, "--tls-key", trust.tls_key, "Its key (PEM)"),
        add_trust_file(command, "--token", trust.token, "With --tls-cert: the file tokens of muster certs tokens")})
    option->needs(listen);
  add_common_flags(command, flags);
}

bool names_hosts(const std::string& hosts) {
  return hosts.find_first_not_of("0123456789:") != std::string::npos;
}

void add_ssh_flags(CLI::App& command, ClusterFlags& flags) {
  command.add_option("--host-file", flags.host_file,
                     "The hosts of --hosts in a file, a line for each: a:4, or a slots=4 as mpirun has it");
  command.add_option("--remote-muster", flags.remote_muster,
                     "With --hosts: where muster is on the others. None: at the same path as here, or in PATH");
  command.add_option(
      "--bundle", flags.bundle,
      "With --hosts: what muster bundle has made, for hosts that have no muster; kept in ~/.cache there");
}

void add_node_flags(CLI::App& command, ClusterFlags& flags) {
  command.add_option("--shared", flags.shared,
                     "Under srun or mpirun: a folder that all nodes see, where they find each other. None: where runs "
                     "are");
  add_ssh_flags(command, flags);
}

void add_join_flags(CLI::App& command, ClusterFlags& flags) {
  command.add_option("--join", flags.join, "ADDRESS:PORT that muster train --listen says")->required();
  control::TrustOptions& trust = flags.trust;
  add_trust_file(command, "--certs", trust.certs, "An agent's folder of muster certs create");
  add_trust_file(command, "--token", trust.token, "Instead of --certs: the file agent.token of muster certs tokens");
  add_trust_file(command, "--tls-ca", trust.tls_authority,
                 "With --token: who has signed the coordinator's certificate (PEM); none: whom this system trusts");
  add_common_flags(command, flags);
}

void require_network(const std::optional<comm::MissingGloo>& missing) {
  if (!missing) return;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("this build of Muster cannot train on several hosts: {}", missing->reason), {},
              missing->remedy);
}

void add_either_flags(CLI::App& command, ClusterFlags& flags) {
  CLI::Option* const listen =
      command.add_option("--listen", flags.listen, "ADDRESS:PORT of this host at which others join");
  command.add_option("--join", flags.join, "ADDRESS:PORT of the host that listens")->excludes(listen);
  control::TrustOptions& trust = flags.trust;
  add_trust_file(command, "--certs", trust.certs, "A folder of muster certs create: the coordinator's or an agent's");
  add_trust_file(command, "--tls-cert", trust.tls_certificate,
                 "With --listen, instead of --certs: a certificate (PEM)");
  add_trust_file(command, "--tls-key", trust.tls_key, "Its key (PEM)");
  add_trust_file(command, "--token", trust.token, "The file of muster certs tokens that this side has");
  add_trust_file(command, "--tls-ca", trust.tls_authority,
                 "With --join and --token: who has signed that certificate (PEM)");
  add_common_flags(command, flags);
}

control::ClusterListen listen_by(const ClusterFlags& flags) {
  require_network(comm::missing_gloo());
  require_one_word(flags.trust, flags.insecure);
  control::require_may_listen(flags.listen, flags.trust.any(), flags.insecure);
  control::ClusterListen listen;
  listen.address = flags.listen;
  listen.trust = flags.trust;
  return listen;
}

control::ClusterTarget join_by(const ClusterFlags& flags) {
  require_network(comm::missing_gloo());
  require_one_word(flags.trust, flags.insecure);
  control::require_may_join(flags.join, flags.trust.any(), flags.insecure);
  control::ClusterTarget target;
  target.address = flags.join;
  target.trust = flags.trust;
  return target;
}

}  // namespace muster::cli
