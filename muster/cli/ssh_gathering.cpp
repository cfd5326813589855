// The agents are started when the coordinator listens, because only then the port is known; they are ended with this
// object at the latest.
#include "muster/cli/ssh_gathering.h"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/host_name.h"
#include "muster/cli/launched.h"
#include "muster/cli/workers.h"
#include "muster/control/trust_files.h"
#include "muster/launch/environment.h"
#include "muster/launch/own_address.h"
#include "muster/launch/ssh_hosts.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kSshArrival{300};  // a slow login, a bundle that is unpacked
constexpr std::uint64_t kLongestHostFile = 1 << 20;
constexpr int kTrustDays = 30;

std::vector<launch::NamedHost> hosts_in(const ClusterFlags& flags) {
  if (flags.host_file.empty()) return launch::parse_hosts(flags.hosts);
  return launch::parse_host_file(read_text(flags.host_file, kLongestHostFile), flags.host_file);
}

std::string without_user(const std::string& name) {
  const std::size_t at = name.rfind('@');
  return at == std::string::npos ? name : name.substr(at + 1);
}

bool is_here(const launch::NamedHost& host) {
  return host.name == host_name() || launch::is_this_machine(without_user(host.name));
}

}  // namespace

SshGathering::SshGathering(ClusterFlags& flags)
    : others_(hosts_in(flags)),
      remote_program_(flags.remote_muster),
      remote_interface_(flags.interface),
      agents_({.program = "ssh", .bundle = flags.bundle, .tell = tell}) {
  const auto own = std::find_if(others_.begin(), others_.end(), is_here);
  if (own == others_.end())
    throw Error(ErrorKind::kInvalidInput, fmt::format("this machine ({}) is not among the hosts", host_name()), {},
                "Type it on one of them: that one coordinates, and trains as well.");
  own_name_ = without_user(own->name);
  own_workers_ = own->workers;
  others_.erase(own);
  if (others_.empty())
    throw Error(ErrorKind::kInvalidInput, "no other host is named than this one", {}, "Leave --hosts out.");
  std::signal(SIGPIPE, SIG_IGN);  // an ssh that ends while it is told something is a host that was not reached
  std::vector<std::string> towards;
  for (const launch::NamedHost& host : others_) {
    const launch::SshWay way = launch::ssh_way(host.name, {});
    if (way.direct) towards.push_back(way.host);
  }
  const launch::OwnAddress address = own_address(flags.interface, towards);
  choose_interface(flags, address);
  flags.listen = with_port(address.address, "0");
  if (flags.insecure) return;
  remove_abandoned("muster-trust-");
  trust_.emplace("muster-trust-");
  const std::filesystem::path made = trust_->path() / "made";
  control::create_certificates(made, {.hosts = {}, .days = kTrustDays, .now = std::chrono::system_clock::now()});
  std::filesystem::remove(made / "ca.key");  // nobody needs another certificate
  flags.trust.certs = made / "coordinator";
}

void SshGathering::prepare(coordinator::CoordinatedJob& job) {
  job.started = "by ssh (--hosts):";
  for (const launch::NamedHost& host : others_)
    job.started += " " + host.name;
  job.hosts->arrival = kSshArrival;
  job.hosts->listens = [this](const std::string& address) { start(address, "agent"); };
  job.hosts->hopeless = [this] { return agents_.lost(); };
}

void SshGathering::start(const std::string& address, const std::string& command) {
  for (const launch::NamedHost& host : others_) {
    launch::RemoteAgent agent;
    agent.command = command;
    agent.join = address;
    agent.name = without_user(host.name);
    agent.workers = host.workers;
    agent.interface = remote_interface_;
    agent.folder = std::filesystem::current_path().string();
    agent.program = remote_program_;
    agent.programs = {own_program()};
    agent.environment = launch::kernel_variables();
    agents_.start(host, std::move(agent), trust_ ? trust_->path() / "made" / "agent" : std::filesystem::path());
  }
}

}  // namespace muster::cli
