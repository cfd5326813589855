// The coordinator's own host goes through the same calls as the others, without a wire between: there is one way in
// which hosts take part.
#include "muster/coordinator/led_hosts.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/host_name.h"
#include "muster/base/version.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kQuietWait{500};  // before people are told what is waited for

ClusterOptions options_of(const CoordinatedJob& job, control::ControlCalls& commands, std::function<bool()> may_decide,
                          LedHosts::Tell tell, LedHosts::Tell note) {
  const JobHosts& hosts = *job.hosts;
  ClusterOptions options;
  options.least = hosts.least;
  options.most = hosts.most;
  options.lanes = hosts.lanes;
  options.patience = hosts.patience;
  options.arrival = hosts.arrival;
  options.workers = job.most_workers;
  options.commands = &commands;
  options.may_decide = std::move(may_decide);
  options.welcome.job = hosts.job;
  options.welcome.program = hosts.program;
  options.welcome.arguments = hosts.arguments;
  options.welcome.run = job.name;
  if (hosts.taken_over) {
    options.welcome.cluster = hosts.taken_over->identity;
    options.welcome.term = hosts.taken_over->term;
    options.agreed = hosts.taken_over->agreed;
  }
  // A few reports may be lost before a host is.
  options.welcome.interval = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(hosts.patience / 10),
                                        std::chrono::milliseconds(20), std::chrono::milliseconds(250));
  options.tell = std::move(tell);
  options.note = std::move(note);
  return options;
}

}  // namespace

LedHosts::LedHosts(const CoordinatedJob& job, control::ControlCalls& commands, std::function<bool()> may_decide,
                   Tell tell, Tell note, const Clock& clock)
    : tell_(tell),
      clock_(clock),
      name_(job.hosts->name.empty() ? host_name() : job.hosts->name),
      hosts_(*job.hosts),
      cluster_(options_of(job, commands, std::move(may_decide), tell, note), clock) {
  HostReporterOptions options;
  options.card.version = version();
  options.card.name = name_;
  options.card.most_workers = job.most_workers;
  options.card.cores = usable_cores().usable;
  options.tell = tell_;
  if (hosts_.taken_over) options.relay = hosts_.taken_over->relay;
  options.adopted = [this](const control::JobGeneration& generation) { cluster_.expect(generation); };
  reporter_.emplace(cluster_, std::move(options), clock);
  reporter_->join();
  reporter_->set_job(job.orphan, job.hosts->interface);
  // Without one all hosts are on this machine, or meet by a way that is not known here.
  if (!job.hosts->interface.empty()) reporter_->call_others(address_for_others(job.hosts->interface), hosts_.patience);
  const control::TrustOptions& trust = job.hosts->listen.trust;
  if (job.data) {
    HostDataOptions data{.data = *job.data, .interface = job.hosts->interface, .tell = tell_, .note = note};
    if (trust.any()) data.secrets = leave_data_secrets(cluster_, reporter_->host(), clock.wall());
    data_.emplace(*reporter_, std::move(data));
  }
  if (job.servers > 0) {
    ServerDirectorOptions director;
    director.servers = static_cast<std::uint32_t>(job.servers);
    director.hosts = hosts_.least;
    director.encrypted = trust.any();
    director.own = reporter_->host();
    director.living = [this] { return cluster_.hosts(); };
    director.tell = tell_;
    director_.emplace(cluster_, std::move(director), clock);
    HostServersOptions servers;
    servers.address = address_for_others(job.hosts->interface);
    servers.first = true;
    servers.folder = reporter_->folder();
    servers.number = [this] { return reporter_->host(); };
    servers.tell = tell_;
    servers_.emplace(cluster_, std::move(servers));
  }
  // After that: the first host is the one that has the job's first state.
  control::ClusterListen listen = job.hosts->listen;
  listen.note = std::move(note);
  server_.emplace(cluster_, listen, &commands);
  if (hosts_.taken_over && !hosts_.before.empty()) heralds_.emplace(hosts_.before, cluster_.identity());
  if (!job.started.empty()) tell_(job.started);
  if (hosts_.listens)
    hosts_.listens(server_->address());
  else
    tell_(fmt::format("agents join by: muster agent --join {}", server_->address()));
}

std::optional<Error> LedHosts::refusal() const {
  if (std::optional<Error> refused = cluster_.refusal()) return refused;
  if (!hosts_.hopeless || cluster_.generation().number != 0) return std::nullopt;
  return hosts_.hopeless();
}

void LedHosts::prepare(launch::SupervisorOptions& options) {
  options.gate = reporter_->gate();
  if (servers_) options.own_servers = [this] { return servers_->own(); };
}

void LedHosts::see(const launch::SupervisorReport& report) {
  reporter_->see(report);
  if (servers_) servers_->see(report.store);
}

void LedHosts::wish(const launch::Wishes& wishes, int signal) {
  cluster_.wish(wishes.workers, wishes.stop || signal != 0, signal == SIGKILL);
}

control::LedCluster LedHosts::standing() const {
  control::LedCluster standing;
  standing.identity = cluster_.job_identity();
  standing.term = hosts_.taken_over ? hosts_.taken_over->term : 1;
  standing.listen = server_->address();
  standing.relay = reporter_->relay();
  standing.interface = hosts_.interface;
  standing.arguments = hosts_.arguments;
  standing.agreed = cluster_.agreed();
  return standing;
}

void LedHosts::describe(control::JobStatus& status) const {
  status.hosts = cluster_.hosts();
  for (const control::HostStatus& host : status.hosts)
    if (host.number != reporter_->host() && !host.alarm.empty())
      status.alarms.push_back(fmt::format("host {} ({}): {}", host.name, host.number, host.alarm));
  status.job_generation = cluster_.generation().number;
  status.coordinator_host = name_;
  if (director_) status.servers = director_->serving();
}

int LedHosts::ending_signal() {
  view_.now = clock_.now();
  view_.failed = !why_broken(false).empty();
  if (view_.failed && !view_.over) view_.over = view_.now;
  view_.grace = kBrokenGrace;
  return decide_agent(view_).signal;
}

std::string LedHosts::why_broken(bool wait) {
  if (director_) {
    if (std::string failure = director_->failure(); !failure.empty()) return failure;
  }
  if (!reporter_->fixed()) return {};
  return cluster_.failure(
      Deadline::after(wait ? time_for_verdict(hosts_.patience) : std::chrono::nanoseconds(0), clock_));
}

void LedHosts::end(const std::string& failure, std::chrono::nanoseconds longest) {
  if (director_) director_->stop();
  cluster_.end(failure);
  const std::uint64_t own = reporter_->host();
  if (!cluster_.wait_until_alone(own, Deadline::after(std::min<std::chrono::nanoseconds>(kQuietWait, longest))) &&
      longest > kQuietWait) {
    tell_("waiting for the other hosts to end");
    cluster_.wait_until_alone(own, Deadline::after(longest - kQuietWait));
  }
  reporter_->leave(failure.empty() ? 0 : 1, failure);
}

}  // namespace muster::coordinator
