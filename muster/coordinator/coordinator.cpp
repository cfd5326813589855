// The supervisor runs on the caller's thread and asks back here at every look: for wishes and signals, and to report.
// How the job ended it says; this turns it into an exit code and words.
#include "muster/coordinator/coordinator.h"

#include <signal.h>

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/coordinator/led_hosts.h"
#include "muster/launch/supervisor.h"
#include "muster/launch/worker_ending.h"
#include "muster/launch/worker_words.h"

namespace muster::coordinator {
namespace {

// For the other hosts to end as well.
constexpr std::chrono::seconds kHostsFarewell{5};
constexpr std::chrono::nanoseconds kShortFarewell{std::chrono::seconds(1)};

// Why the workers ended so, as far as they have said it.
std::string reason_of_end(const std::string& store, int code) {
  const std::string said = launch::read_reason(store);
  return said.empty() ? fmt::format("the workers ended with exit code {}", code) : said;
}

// What to do when workers were lost. What goes on from a checkpoint, and how, a program of a user's own decides.
const char* remedy(bool ours) {
  return ours ? "Nothing that was committed to a checkpoint is lost: start again with --resume."
              : "What the workers said is above; what the program has kept is where it left it.";
}

Error overtaken(std::uint64_t term) {
  return Error(ErrorKind::kPeerLost, fmt::format("another coordinator has taken over this job (term {})", term), {},
               "It goes on there. This host may take part again: muster agent --join, with its address.");
}

}  // namespace

Coordinator::Coordinator(CoordinatedJob job, const JobService::Tell& tell, const Clock& clock)
    : job_(std::move(job)), tell_(tell), clock_(clock), service_(job_, tell, clock) {
}

Coordinator::Coordinator(RecordedJob recorded, const JobService::Tell& tell, const Clock& clock)
    : job_(recorded.job), store_(recorded.store), tell_(tell), clock_(clock), service_(recorded, tell, clock) {
}

void Coordinator::note(const std::string& line) {
  tell_(line);
  service_.note(line);
}

launch::SupervisorOptions Coordinator::supervisor_options(const Audience& audience, LedHosts* led) {
  launch::SupervisorOptions options;
  options.seats = job_.most_workers;
  options.watch = job_.watch;
  options.describe_lane = [this](std::uint64_t step, int lane) {
    return job_.training->describe_lane(step, lane, service_.leader());
  };
  options.servers = job_.servers;
  options.server_command = job_.server_command;
  options.workers_serve = job_.workers_serve;
  options.tell = [this](const std::string& message) { note(message); };
  options.requested_signal = [this, &audience, led] {
    // Workers of a coordinator that was replaced commit nothing any more.
    if (led != nullptr && led->superseded() != 0) return SIGKILL;
    if (!service_.overtaken().empty()) return SIGKILL;
    const int asked = audience.requested_signal();
    if (asked != 0 || led == nullptr) return asked;
    return led->refusal() ? SIGTERM : led->ending_signal();
  };
  options.wishes = [this, &audience, led] {
    const launch::Wishes wishes = service_.wishes();
    if (led != nullptr) led->wish(wishes, audience.requested_signal());
    return wishes;
  };
  options.report = [this, &audience, led](const launch::SupervisorReport& report) {
    service_.report(report);
    if (led != nullptr) led->see(report);
    audience.look();
  };
  if (led != nullptr) led->prepare(options);
  // Workers of ours end together; what a user's program does after training is its own affair.
  if (!job_.training->ours()) options.grace.reset();
  return options;
}

std::unique_ptr<LedHosts> Coordinator::lead() {
  if (!job_.hosts) {
    if (!job_.started.empty()) note(job_.started);
    return nullptr;
  }
  // The term counts before anybody hears of it.
  if (job_.hosts->taken_over) service_.lead(*job_.hosts->taken_over);
  auto led = std::make_unique<LedHosts>(
      job_, service_.commands(), [this] { return service_.leads_for_certain(); },
      [this](const std::string& line) { note(line); }, [this](const std::string& line) { service_.note(line); },
      clock_);
  service_.lead_with([hosts = led.get()] { return hosts->standing(); });
  service_.describe_with([hosts = led.get()](control::JobStatus& status) { hosts->describe(status); });
  service_.ask_others_with([hosts = led.get()](const std::vector<control::Change>& changes) { hosts->ask(changes); });
  return led;
}

// Of workers that cannot be replaced, once those of this host have ended.
void Coordinator::throw_if_broken(LedHosts& led) const {
  // Who says something has ended by itself; who has lost others does not.
  const std::string why = led.why_broken(/*wait=*/launch::read_reason(service_.store()).empty());
  if (!why.empty()) throw Error(ErrorKind::kPeerLost, why, {}, remedy(job_.training->ours()));
}

int Coordinator::run(const Audience& audience) {
  const std::unique_ptr<LedHosts> led = lead();  // until the service has ended, which asks it
  // Who asks the service afterwards, for how the job has ended, gets an answer without them.
  const std::shared_ptr<void> forgotten(nullptr, [this](void*) {
    service_.describe_with({});
    service_.ask_others_with({});
  });
  const auto end_hosts = [&](const std::string& failure) {
    if (!led) return;
    const bool at_once = audience.requested_signal() == SIGKILL;
    led->end(failure, at_once ? kShortFarewell
                              : std::chrono::duration_cast<std::chrono::nanoseconds>(job_.grace) + kHostsFarewell);
  };
  try {
    const launch::SupervisorOptions options = supervisor_options(audience, led.get());
    std::optional<launch::Supervisor> supervisor;  // with it goes the folder in which the workers have said why
    if (store_)
      supervisor.emplace(job_.command, options, *store_, clock_);
    else
      supervisor.emplace(job_.command, options, clock_);
    const int code = supervisor->run();
    if (led && led->superseded() != 0) throw overtaken(led->superseded());
    if (const std::string who = service_.overtaken(); !who.empty())
      throw Error(ErrorKind::kPeerLost, who, {}, "The job goes on there.");
    // Workers of this host that were refused may have been told to end before they could say it themselves.
    if (led && led->refusal()) throw *led->refusal();
    const bool asked = audience.requested_signal() != 0 || service_.wishes().stop;
    if (led && code != 0 && !asked) throw_if_broken(*led);
    // Workers of ours that were asked to end say so by their code, whoever asked them.
    const bool stopped = asked || (job_.training->ours() && launch::asked_to_end({.exit_code = code}));
    end_hosts(code == 0 || stopped ? "" : reason_of_end(service_.store(), code));
    service_.end(stopped     ? control::JobPhase::kStopped
                 : code == 0 ? control::JobPhase::kFinished
                             : control::JobPhase::kFailed,
                 code == 0 || stopped ? "" : reason_of_end(service_.store(), code));
    return code;
  } catch (const Error& error) {
    end_hosts(error.message());
    // What another one has taken over goes on.
    const bool goes_on = (led && led->superseded() != 0) || !service_.overtaken().empty();
    service_.end(goes_on ? control::JobPhase::kStopped : control::JobPhase::kFailed, error.message());
    const bool ours = job_.training->ours();
    if (error.kind() != ErrorKind::kPeerLost || (ours && !error.remedy().empty())) throw;
    throw Error(error.kind(), error.message(), error.where(), remedy(ours));
  }
}

}  // namespace muster::coordinator
