// The supervisor runs on the caller's thread and asks back here at every look; the coordinator is talked to by threads
// of the reporter.
#include "muster/coordinator/agent.h"

#include <signal.h>

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/coordinator/host_data.h"
#include "muster/coordinator/host_servers.h"
#include "muster/launch/supervisor.h"
#include "muster/launch/worker_ending.h"
#include "muster/launch/worker_words.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kJoinPause{200};
constexpr std::chrono::seconds kFarewell{3};    // for the coordinator to hear that this host ends
constexpr std::chrono::seconds kLastSteps{30};  // that workers may take to end by themselves once the job is over
constexpr std::chrono::milliseconds kVerdictPoll{50};

constexpr int kMistake = 2;  // exit code of workers

// First the signal that lets workers write a checkpoint, then the one that does not.
int signal_since(Clock::Instant since, const AgentView& view) {
  return view.now - since > view.grace ? SIGKILL : SIGTERM;
}

}  // namespace

std::chrono::nanoseconds time_for_verdict(std::chrono::nanoseconds patience) {
  return patience + std::chrono::seconds(2);
}

AgentDecision decide_agent(const AgentView& view) {
  if (view.requested == SIGKILL) return {true, SIGKILL, "this host ends at once"};
  if (view.requested != 0 && view.together && !view.abandoned) {
    const bool late = view.asked && view.now - *view.asked > view.grace + kFarewell;
    return {late, late ? SIGKILL : 0, "all hosts were told to end: the job stops after a checkpoint", true};
  }
  if (view.requested != 0) {
    // The others need not wait for workers of a host that is known to leave, and these have nobody to finish with.
    const bool heard = view.gone || (view.asked && view.now - *view.asked > kFarewell);
    return {true, heard ? SIGKILL : 0, "this host leaves the job; the others go on without it"};
  }
  if (view.at_once) return {false, SIGKILL, "the job ends at once"};
  if (view.over && view.failed) return {false, signal_since(*view.over, view), "the job has failed"};
  // Workers see by themselves that everything is done.
  if (view.over && view.now - *view.over > kLastSteps)
    return {false, SIGKILL, "the job is over, and its workers here do not end"};
  if (view.abandoned)
    return {false, signal_since(*view.abandoned, view), "without a coordinator the workers write a checkpoint and end"};
  return {};
}

AgentEnd decide_agent_end(const AgentEndView& view) {
  using control::JobPhase;
  if (view.left != 0) return {128 + view.left, {}, JobPhase::kStopped, "this host has left the job"};
  if (view.abandoned) return {1, view.abandoned, JobPhase::kFailed, view.abandoned->message()};
  // What is wrong with this host says more than that the job has failed.
  if (view.code == kMistake) return {kMistake, {}, JobPhase::kFailed, "the workers of this host were refused"};
  const std::optional<std::string>& over = view.orders.over;
  if (over && !over->empty()) {
    const Error failure(ErrorKind::kPeerLost, fmt::format("the job has failed: {}", *over), {},
                        "What the coordinator's host has to say is there.");
    return {1, failure, JobPhase::kFailed, failure.message()};
  }
  // Workers that came to the end of the job say 0, also when somebody stopped it a moment later; those that stopped
  // say so by their code, unless they had to be killed.
  if (view.code == 0) return {};
  if (view.orders.stop || view.orders.at_once || launch::asked_to_end({.exit_code = view.code}))
    return {128 + SIGTERM, {}, JobPhase::kStopped, ""};
  return {view.code, {}, JobPhase::kFailed, fmt::format("the workers ended with exit code {}", view.code)};
}

Agent::Agent(control::ClusterCalls& calls, AgentOptions options, const Clock& clock)
    : calls_(calls), options_(std::move(options)), clock_(clock) {
}

std::optional<control::Welcome> Agent::join(HostReporter& reporter, const Audience& audience) {
  std::set<std::string> told;  // of several addresses each may have a reason of its own
  for (const Deadline deadline = Deadline::after(options_.patience, clock_);;) {
    try {
      return reporter.join();
    } catch (const Error& error) {
      if (!may_join_later(error) || deadline.passed()) throw;
      if (told.insert(error.message()).second)
        options_.tell(fmt::format("waiting for the coordinator: {}", error.message()));
    }
    if (audience.requested_signal() != 0) return std::nullopt;
    clock_.sleep_for(kJoinPause);
  }
}

int Agent::signal_for(const CoordinatedJob& job, HostReporter& reporter, int requested) {
  const control::Orders orders = reporter.orders();
  view_.now = clock_.now();
  view_.requested = requested;
  if (requested != 0 && !view_.asked) view_.asked = view_.now;
  view_.together = options_.together;
  view_.gone = reporter.gone();
  view_.at_once = orders.at_once;
  if (orders.over && !view_.over) view_.over = view_.now;
  view_.failed = orders.over && !orders.over->empty();
  if (!view_.abandoned && reporter.abandoned()) view_.abandoned = view_.now;
  // Nor can any with servers, once those of other hosts end.
  const bool broken = reporter.fixed() || (job.servers > 0 && view_.failed);
  view_.grace = broken ? kBrokenGrace : std::chrono::duration_cast<std::chrono::nanoseconds>(job.grace);
  const AgentDecision decision = decide_agent(view_);
  if (decision.announce) reporter.announce_end("leaves the job");
  if (decision.stop && !stopped_) stop_job(reporter);
  if (decision.reason != told_ && !decision.reason.empty()) options_.tell(decision.reason);
  if (!decision.reason.empty()) told_ = decision.reason;
  return decision.signal;
}

// The coordinator was told as well, as a rule, and may be ending already: then there is nobody to ask, and no need to.
void Agent::stop_job(const HostReporter& reporter) {
  stopped_ = true;
  try {
    calls_.host_stop(reporter.host(), fmt::format("signal-{}", reporter.host()));
  } catch (const Error& error) {
    options_.tell(fmt::format("the coordinator was not asked to stop: {}", error.message()));
  }
}

launch::SupervisorOptions Agent::supervisor_options(const CoordinatedJob& job, HostReporter& reporter,
                                                    HostService& service, HostServers* servers,
                                                    const Audience& audience) {
  launch::SupervisorOptions options;
  options.seats = job.most_workers;
  if (servers != nullptr) {
    options.servers = job.servers;
    options.server_command = job.server_command;
    options.own_servers = [servers] { return servers->own(); };
  }
  options.watch = job.watch;
  options.gate = reporter.gate();
  options.tell = [this, &service](const std::string& line) {
    options_.tell(line);
    service.note(line);
  };
  options.describe_lane = [&job](std::uint64_t step, int lane) { return job.training->describe_lane(step, lane, {}); };
  options.requested_signal = [this, &job, &reporter, &audience] {
    return signal_for(job, reporter, audience.requested_signal());
  };
  options.wishes = [&job, &reporter, &service] {
    const control::Orders orders = reporter.orders();
    service.ask(orders.changes);
    return launch::Wishes{std::clamp(orders.workers, job.least_workers, job.most_workers), orders.stop, 0};
  };
  options.report = [&reporter, &service, &audience, servers](const launch::SupervisorReport& report) {
    reporter.see(report);
    if (servers != nullptr) servers->see(report.store);
    service.report(report);
    audience.look();
  };
  if (!job.training->ours()) options.grace.reset();
  return options;
}

// Workers that are fixed end when others are lost, at once; who was lost the coordinator knows a moment later.
void Agent::wait_for_verdict(const HostReporter& reporter, std::chrono::nanoseconds patience,
                             const Audience& audience) const {
  const Deadline deadline = Deadline::after(time_for_verdict(patience), clock_);
  while (reporter.fixed() && !deadline.passed() && audience.requested_signal() == 0) {
    const control::Orders orders = reporter.orders();
    if (orders.over || orders.stop || orders.at_once || reporter.gone() || reporter.abandoned()) return;
    clock_.sleep_for(kVerdictPoll);
  }
}

void Agent::wait_for_the_others(const HostReporter& reporter, const Audience& audience) const {
  while (audience.requested_signal() == 0 && !reporter.gone() && !reporter.abandoned()) {
    const control::Orders orders = reporter.orders();
    if (orders.over || orders.at_once) return;
    clock_.sleep_for(kVerdictPoll);
  }
}

int Agent::run(const Audience& audience) {
  HostReporterOptions of_reporter;
  of_reporter.card = options_.card;
  of_reporter.tell = options_.tell;
  std::optional<CoordinatedJob> job;
  HostReporter reporter(calls_, std::move(of_reporter), clock_);
  const std::optional<control::Welcome> welcome = join(reporter, audience);
  if (!welcome) return 128 + audience.requested_signal();
  std::optional<HostService> service;  // before the line to the coordinator goes
  int code = 0;
  std::string said;  // by the workers
  try {
    std::string interface = options_.interface;
    job = options_.job(*welcome, interface);
    reporter.set_job(job->orphan, interface);
    if (!interface.empty()) reporter.call_others(address_for_others(interface), welcome->patience);
    HostService::Line line{
        calls_, [&reporter] { return reporter.host(); }, options_.coordinator, {}, options_.recorded};
    line.cluster = [&reporter, cluster = welcome->cluster, interface, listen = options_.coordinator,
                    arguments = welcome->arguments] {
      return control::LedCluster{cluster,   reporter.term(), listen,           reporter.relay(),
                                 interface, arguments,       reporter.agreed()};
    };
    service.emplace(*job, std::move(line), options_.tell, clock_);
    options_.tell(fmt::format("joined {} as host {}, with {} worker{}", welcome->run, welcome->host, job->most_workers,
                              job->most_workers == 1 ? "" : "s"));
    std::optional<HostData> data;  // after the workers that use it
    if (job->data) {
      HostDataOptions wanted{.data = *job->data, .interface = interface, .tell = options_.tell};
      wanted.note = [&service](const std::string& line) { service->note(line); };
      if (options_.trust.any()) wanted.secrets = find_data_secrets(calls_, reporter.host());
      data.emplace(reporter, std::move(wanted));
    }
    std::optional<HostServers> servers;
    if (job->servers > 0) {
      HostServersOptions wanted;
      wanted.address = address_for_others(interface);
      wanted.folder = reporter.folder();
      wanted.number = [&reporter] { return reporter.host(); };
      wanted.tell = options_.tell;
      servers.emplace(calls_, std::move(wanted));
    }
    launch::Supervisor supervisor(
        job->command, supervisor_options(*job, reporter, *service, servers ? &*servers : nullptr, audience), clock_);
    code = supervisor.run();
    // Workers of other hosts may need the servers of this one until theirs have ended, too.
    if (servers && (code == 0 || reporter.orders().stop)) wait_for_the_others(reporter, audience);
    said = launch::read_reason(reporter.store());
  } catch (const Error& error) {
    if (service) service->end(control::JobPhase::kFailed, error.message());
    reporter.leave(error.exit_code(), error.message());
    throw;
  }
  if (code != 0 && said.empty()) wait_for_verdict(reporter, welcome->patience, audience);
  const AgentEnd end =
      decide_agent_end({code, view_.asked ? audience.requested_signal() : 0, reporter.abandoned(), reporter.orders()});
  if (said.empty()) said = fmt::format("its workers ended with exit code {}", code);
  reporter.leave(code, code == 0 ? "" : said);
  service->end(end.phase, end.reason);
  if (end.failure) throw *end.failure;
  return end.code;
}

}  // namespace muster::coordinator
