// The record of a job says which program its workers are: whoever can write to the etcd runs programs where a
// coordinator takes over. So an etcd on another machine wants TLS, as agents do.
#include "muster/cli/store_flags.h"

#include "muster/base/error.h"
#include "muster/control/cluster_server.h"

namespace muster::cli {

void add_store_flags(CLI::App& command, StoreFlags& flags) {
  CLI::Option* const store = command.add_option(
      "--store", flags.url,
      "etcd://HOST:PORT[,HOST:PORT...][/PREFIX]: keep the job's record there instead of in the run's folder, so that "
      "another coordinator can take over by itself (docs/operations.md)");
  const auto file = [&](const char* name, std::filesystem::path& path, const char* help) {
    const auto refuse_nothing = [](const std::string& value) { return value.empty() ? "is empty" : std::string(); };
    command.add_option(name, path, help)->check(CLI::Validator(refuse_nothing, "PATH"))->needs(store);
  };
  file("--store-ca", flags.authority, "Who has signed the certificates of the etcd's members (PEM); turns TLS on");
  file("--store-cert", flags.certificate, "A certificate to show to the etcd, where it asks for one (PEM)");
  file("--store-key", flags.key, "Its key (PEM)");
  command.add_option("--store-user", flags.user, "A user of the etcd")->needs(store);
  file("--store-password", flags.password, "A file with that user's password, readable by its owner alone");
  command
      .add_option("--store-lease", flags.lease_seconds,
                  "Seconds after which a coordinator that the etcd does not hear of has lost the lead")
      ->check(CLI::Range(2, 3600))
      ->needs(store)
      ->capture_default_str();
  command.add_flag("--store-insecure", flags.insecure,
                   "Talk to an etcd on another machine without TLS: whoever can write to it can run programs here");
}

std::optional<control::EtcdOptions> etcd_by(const StoreFlags& flags) {
  if (flags.url.empty()) return std::nullopt;
  control::EtcdOptions options = control::parse_etcd_url(flags.url);
  options.authority = flags.authority;
  options.certificate = flags.certificate;
  options.key = flags.key;
  options.user = flags.user;
  options.password = flags.password;
  options.lease = std::chrono::seconds(flags.lease_seconds);
  if (options.encrypted() && flags.insecure)
    throw Error(ErrorKind::kInvalidInput, "--store-insecure beside --store-ca or --store-cert", {},
                "Leave --store-insecure out.");
  for (const std::string& member : options.members) {
    try {
      control::require_may_join(member, options.encrypted(), flags.insecure);
    } catch (const Error& error) {
      throw Error(error.kind(), error.message(), "--store",
                  "Give --store-ca (and --store-cert, --store-key where the etcd asks for them), or --store-insecure "
                  "for a network of your own.");
    }
  }
  return options;
}

}  // namespace muster::cli
