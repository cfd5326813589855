// Who calls shows a certificate of the role "user" or "reader", or a token; what each of them may, the coordinator says
// (control/caller_role.cpp).
#include "muster/cli/far_job.h"

#include <filesystem>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/cli/cluster_flags.h"
#include "muster/control/far_control.h"

namespace muster::cli {
namespace {

void require_job(control::ControlCalls& calls, const FarFlags& flags, const std::string& job) {
  const control::JobStatus status = calls.status();
  const std::string run = std::filesystem::path(status.run).filename();
  if (job == status.job || run.starts_with(job)) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("the job there is {} (run {}), not {}", status.job, run, job),
              flags.at, "muster status --at " + flags.at + " shows it.");
}

}  // namespace

void add_far_flags(CLI::App& command, FarFlags& flags) {
  CLI::Option* const at = command.add_option(
      "--at", flags.at, "ADDRESS:PORT of a coordinator (its --listen), for a job that has no host on this machine");
  control::TrustOptions& trust = flags.trust;
  for (CLI::Option* const option :
       {add_trust_file(command, "--certs", trust.certs,
                       "With --at: a user's or reader's folder of muster certs create"),
        add_trust_file(command, "--token", trust.token,
                       "With --at, instead of --certs: the file user.token or reader.token of muster certs tokens"),
        add_trust_file(
            command, "--tls-ca", trust.tls_authority,
            "With --token: who has signed the coordinator's certificate (PEM); none: whom this system trusts"),
        static_cast<CLI::Option*>(command.add_flag(
            "--insecure", flags.insecure, "With --at: to a coordinator that listens with --insecure, unencrypted"))})
    option->needs(at);
}

std::unique_ptr<control::ControlCalls> far_job(const FarFlags& flags, const std::string& job,
                                               std::chrono::milliseconds time) {
  require_one_word(flags.trust, flags.insecure);
  if (!control::is_loopback(flags.at) && !flags.trust.any() && !flags.insecure)
    throw Error(
        ErrorKind::kInvalidInput, "nothing tells the coordinator who you are, nor you who answers there", flags.at,
        "Give --certs with a folder that `muster certs create` makes for a user or reader; or, to a coordinator "
        "that was started with --insecure, type that.");
  auto calls = std::make_unique<control::FarControl>(control::ClusterTarget{flags.at, flags.trust}, time);
  if (!job.empty()) require_job(*calls, flags, job);
  return calls;
}

}  // namespace muster::cli
