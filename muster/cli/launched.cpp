// Flags come first, then variables, then what the surroundings show. Nothing goes over a network without protection,
// and no interface is taken that is not private, unless somebody has typed it.
#include "muster/cli/launched.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/agent.h"
#include "muster/cli/signals.h"
#include "muster/cli/workers.h"
#include "muster/control/take_over_checks.h"
#include "muster/coordinator/host_data.h"
#include "muster/launch/own_address.h"

namespace muster::cli {
namespace {

// Nodes of one start come within moments of each other; a prolog, a container to be fetched or a slow file system
// may take longer.
constexpr std::chrono::seconds kArrival{300};
constexpr std::chrono::seconds kAnswer{2};  // of a node 0 that lives

std::filesystem::path folder_for(const launch::Surroundings& surroundings, const std::filesystem::path& runs,
                                 const ClusterFlags& flags) {
  if (!flags.shared.empty()) return flags.shared;
  if (!surroundings.folder.empty()) return surroundings.folder;
  return runs;
}

// One folder may have those of both roles, as muster certs create makes it.
std::filesystem::path certs_of_node(const launch::Surroundings& surroundings) {
  if (surroundings.certs.empty()) return {};
  const std::filesystem::path of_role =
      std::filesystem::path(surroundings.certs) / (surroundings.node == 0 ? "coordinator" : "agent");
  std::error_code code;
  return std::filesystem::exists(of_role, code) ? of_role : std::filesystem::path(surroundings.certs);
}

// What the variables say of trust, where no flag does.
void take_variables(const launch::Surroundings& surroundings, ClusterFlags& flags) {
  if (!flags.trust.any() && !flags.insecure) {
    flags.trust.certs = certs_of_node(surroundings);
    flags.insecure = surroundings.insecure;
  }
  if (flags.interface.empty()) flags.interface = surroundings.interface;
}

// "HOST" and "PORT".
std::pair<std::string, std::string> host_and_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size())
    throw Error(ErrorKind::kInvalidInput, fmt::format("\"{}\" is not HOST:PORT", address),
                "environment variable MUSTER_COORDINATOR");
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

}  // namespace

std::string with_port(const std::string& address, const std::string& port) {
  return address.find(':') == std::string::npos ? fmt::format("{}:{}", address, port)
                                                : fmt::format("[{}]:{}", address, port);
}

launch::OwnAddress own_address(const std::string& interface, const std::vector<std::string>& towards) {
  if (!interface.empty()) return {coordinator::address_of_interface(interface), interface, {}};
  return launch::address_towards(towards);
}

void choose_interface(ClusterFlags& flags, const launch::OwnAddress& own) {
  const bool named = !flags.interface.empty();
  flags.interface = launch::choose_interface(flags.interface, own);
  if (flags.over_mpi)
    tell("sums of gradients go over MPI, without encryption, on the network that it is told to use");
  else if (!named && !flags.interface.empty())
    tell(fmt::format("sums of gradients go over {} ({}), without encryption; --interface names another one",
                     flags.interface, own.address));
}

launch::Surroundings surroundings_for(const ClusterFlags& flags) {
  if (!flags.listen.empty() || flags.by_ssh()) return {};
  launch::Surroundings found = launch::detect_surroundings();
  launch::require_usable(found);
  return found;
}

FirstNode::FirstNode(const launch::Surroundings& surroundings, const std::filesystem::path& runs, ClusterFlags& flags)
    : surroundings_(surroundings) {
  take_variables(surroundings, flags);
  if (!surroundings.coordinator.empty()) {
    const auto [host, port] = host_and_port(surroundings.coordinator);
    const launch::OwnAddress own = own_address(flags.interface, {host, host_name()});
    choose_interface(flags, own);
    // Others may reach it by an address that it does not have itself, through a service of Kubernetes for one.
    flags.listen = launch::is_loopback_address(own.address) ? with_port(own.address, port) : "0.0.0.0:" + port;
    return;
  }
  const launch::OwnAddress own = own_address(flags.interface, surroundings.towards);
  choose_interface(flags, own);
  meeting_.emplace(folder_for(surroundings, runs, flags), surroundings.name, !flags.trust.any() && !flags.insecure);
  if (!meeting_->certs().empty()) flags.trust.certs = meeting_->certs();
  flags.listen = with_port(own.address, "0");
}

void FirstNode::prepare(coordinator::CoordinatedJob& job) {
  job.hosts->arrival = kArrival;
  job.hosts->listens = [this](const std::string& address) {
    if (meeting_) meeting_->open(address);
  };
}

void FirstNode::fail(const std::string& reason) {
  if (meeting_) meeting_->fail(reason);
}

int run_other_node(const launch::Surroundings& surroundings, const std::filesystem::path& runs, ClusterFlags flags,
                   std::optional<int> workers) {
  take_variables(surroundings, flags);
  const TemporaryFolder own("muster-trust-");
  AgentFlags agent;
  std::optional<launch::Met> met;
  const auto answers = [&flags](const launch::Met& found) {
    control::ClusterTarget target;
    target.address = found.address;
    target.trust = flags.trust;
    if (!found.certs.empty()) target.trust.certs = found.certs;
    return control::coordinator_answers(target, Deadline::after(kAnswer));
  };
  if (!surroundings.coordinator.empty()) {
    flags.join = surroundings.coordinator;
  } else {
    int code = 0;
    {
      const SignalWatch signals(kArrival, [](const std::string& signal) { tell(signal + ": ending"); });
      met = launch::find_meeting(
          folder_for(surroundings, runs, flags), surroundings.name, own.path() / "agent", Deadline::after(kArrival),
          [&] { return signals.stop_requested(); }, answers);
      code = signals.exit_code();
    }
    if (!met) return code;
    flags.join = met->address;
    if (!met->certs.empty())
      flags.trust.certs = met->certs;
    else if (!flags.trust.any() && !flags.insecure)
      throw Error(ErrorKind::kInvalidInput, "node 0 was started with --insecure, this one was not", {},
                  "Start all nodes with the same flags.");
  }
  // The coordinator's name may be known a moment later than this process begins, in Kubernetes for one.
  choose_interface(flags, own_address(flags.interface, {host_and_port(flags.join).first, host_name()}));
  agent.cluster = flags;
  agent.workers = workers;
  agent.name = surroundings.names.size() > static_cast<std::size_t>(surroundings.node)
                   ? surroundings.names[static_cast<std::size_t>(surroundings.node)]
                   : std::string();
  agent.wait_seconds = std::chrono::duration<double>(kArrival).count();
  agent.together = surroundings.together;
  const auto clear = [&] {
    if (met) launch::clear_meeting(folder_for(surroundings, runs, flags), surroundings.name, *met, answers);
  };
  try {
    const int code = run_agent(agent);
    clear();
    return code;
  } catch (...) {
    clear();
    throw;
  }
}

}  // namespace muster::cli
