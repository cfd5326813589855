// muster chaos --hosts: makes hosts, trains a job on them, disturbs these, and holds what is left against one worker on
// one host. The parts: host_plan (what), host_faults (how), host_job (the programs), look (what is seen).
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/eventually.h"
#include "muster/cli/chaos/chaos.h"
#include "muster/cli/chaos/host_faults.h"
#include "muster/cli/chaos/host_job.h"
#include "muster/cli/chaos/plan.h"
#include "muster/cli/chaos/teller.h"
#include "muster/cli/chaos/throughput.h"
#include "muster/cli/chaos/watch.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/signals.h"
#include "muster/launch/namespace_hosts.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kHostsPause{50};
constexpr std::chrono::seconds kHostsEndTime{60};
constexpr std::chrono::seconds kHostsLeavingTime{5};
constexpr double kHostsStuck = 120;  // seconds without a commit after which nobody waits any longer
constexpr double kReturn = 120;      // seconds after the last fault in which all should be back
constexpr double kStopPause = 1;     // between attempts to stop it
// An undisturbed run of one worker computes alone what many did; it may take longer by as much.
constexpr double kLongestReference = 20;

// What several hosts ask of a job beyond what one does.
trainer::ResolvedJob job_of(const ChaosFlags& flags) {
  std::vector<std::string> assignments = flags.assignments;
  assignments.insert(assignments.end(),
                     {fmt::format("parallel.hosts={}", flags.hosts), "parallel.interface=eth0", "job.runs=runs"});
  return trainer::load_job(flags.job, assignments);
}

void require_possible(const ChaosFlags& flags) {
  const auto refuse = [](const std::string& what, const std::string& where, const std::string& remedy) {
    throw Error(ErrorKind::kInvalidInput, what, where, remedy);
  };
  std::error_code code;
  if (!std::filesystem::is_regular_file(flags.job, code))
    refuse("a job that runs cannot be given hosts", flags.job, "Give a job file: chaos starts it on hosts of its own.");
  if (!flags.reference.empty())
    refuse("runs of one machine are not compared with hosts", "--reference", "Use --compare.");
  if (flags.goal) refuse("throughput is not measured on hosts", "--goal", "Leave it out.");
}

void require_hosts() {
  require_network(comm::missing_gloo());
  if (const std::string why = launch::Hosts::impossible(); !why.empty())
    throw Error(ErrorKind::kUnsupported, fmt::format("hosts cannot be made here: {}", why), "--hosts",
                "They are network namespaces: run it as root, with iproute2 installed.");
}

class HostsChaos {
 public:
  HostsChaos(const ChaosFlags& flags, const FaultRates& rates, trainer::ResolvedJob job)
      : flags_(flags), resolved_(std::move(job)), plan_(rates, flags.seed) {}

  ChaosReport run() {
    const std::filesystem::path logs = std::filesystem::path(flags_.runs) / fmt::format("chaos-{}", resolved_.job.name);
    job_.emplace(flags_.hosts, resolved_, logs);
    teller_.tell(0, fmt::format("{} hosts; what they print: {}", flags_.hosts, logs.string()));
    HostFaultOptions options;
    options.detection = resolved_.job.parallel.host_seconds;
    options.ledger = resolved_.job.ledger;
    options.tell = [this](const std::string& text) { teller_.tell(now(), text); };
    maker_.emplace(*job_, options);
    disturb();
    teller_.end();
    ChaosReport report = judge();
    job_->keep_logs();
    return report;
  }
  int exit_code() const { return signals_.exit_code(); }

 private:
  double now() const { return look_clock() - start_; }
  bool interrupted() const { return signals_.stop_requested(); }

  void read_looks() {
    for (Look& look : job_->looks()) {
      look.at -= start_;
      samples_.push_back({look.at, look.live, look.step, look.generation, look.term});
      if (look.live && look.step > last_step_) {
        last_step_ = look.step;
        last_commit_ = look.at;
      }
      for (const HostLook& host : look.hosts)
        if (host.checkpoint) acknowledged_ = std::max(acknowledged_.value_or(0), *host.checkpoint);
      maker_->look(look);
      newest_ = std::move(look);
    }
  }

  std::string summary() const {
    return fmt::format("step {} of {}, {:.0f} samples/s, {} hosts, generation {}, term {}; {} fault{}", newest_.step,
                       newest_.total_steps, newest_.samples_per_second, newest_.hosts.size(), newest_.generation,
                       newest_.term, maker_->faults().size(), maker_->faults().size() == 1 ? "" : "s");
  }

  bool enough() const {
    const bool late = begin_ && now() - *begin_ >= 60 * flags_.minutes;
    return late || interrupted() ||
           (flags_.count && maker_->faults().size() >= static_cast<std::size_t>(*flags_.count));
  }

  // A calm time, faults, and the job's end.
  void disturb() {
    std::optional<PlannedFault> planned;
    for (;; system_clock().sleep_for(kHostsPause)) {
      read_looks();
      const double at = now();
      job_->tend();
      if (job_->over()) break;
      maker_->tend(at);
      if (newest_.live) teller_.summary(at, summary());
      if (!calm_ && newest_.all_train(flags_.hosts)) calm_ = at;
      if (calm_ && !begin_ && at - *calm_ >= flags_.calm_seconds) begin_ = at;
      if (begin_ && !end_ && enough()) {
        // The faults that were made have their time; nobody waits for one that was interrupted.
        if (interrupted()) maker_->end(at);
        end_ = at;
      }
      if (begin_ && !end_) {
        if (!planned) planned = plan_.next();
        PlannedFault due = *planned;
        due.at += *begin_;
        if (maker_->ready(due, at)) {
          maker_->make(due, at);
          planned.reset();
        }
      }
      const bool rested = end_ && (maker_->settled() || at - *end_ > kReturn);
      if (((rested && flags_.then == "stop") || interrupted()) && at - asked_ > kStopPause) stop(at);
      if (at - last_commit_ > kHostsStuck) {
        teller_.tell(at, fmt::format("nothing was committed for {:.0f} s: nobody waits any longer", kHostsStuck));
        break;
      }
    }
    read_looks();
    if (begin_ && !end_) end_ = last_commit_;
  }

  void stop(double at) {
    asked_ = at;
    if (job_->stop() && !told_to_stop_) told_to_stop_ = at;
  }

  ChaosReport judge() {
    Observations seen;
    seen.hosts = flags_.hosts;
    seen.samples = samples_;
    seen.faults = maker_->faults();
    for (MadeFault& fault : seen.faults)
      fault.commit = next_commit(samples_, fault.at);
    seen.parts = maker_->parts();
    seen.went_on = maker_->went_on();
    seen.deserters = job_->deserters();
    seen.liveness = resolved_.job.parallel.host_seconds;
    seen.told_to_stop = told_to_stop_;
    seen.acknowledged = acknowledged_;
    seen.no_reference = "no undisturbed run to compare with: --compare makes one";
    const double rate = calm_ ? step_rate(samples_, *calm_, begin_.value_or(now())) : 0;
    if (rate > 0) seen.step_seconds = 1 / rate;
    seen.over = job_->over();
    if (seen.over) conclude(seen);
    ChaosReport report;
    report.run = job_->run(job_->coordinator()).value_or("").filename().string();
    report.seed = flags_.seed;
    report.hosts = flags_.hosts;
    report.faults = seen.faults;
    if (begin_) report.seconds = *end_ - *begin_;
    report.findings = check_invariants(seen);
    return report;
  }

  // What is left of a job that is over.
  void conclude(Observations& seen) {
    const std::vector<std::string> late = job_->wait_for_agents(kHostsEndTime);
    const int code = job_->exit_code();
    seen.ended_well = code == 0 || (code == 128 + SIGTERM && told_to_stop_);
    seen.end = fmt::format("exit code {} at step {}", code, last_step_);
    std::vector<std::string> left;
    if (!eventually([&] { return (left = job_->leftovers()).empty(); }, Deadline::after(kHostsLeavingTime)))
      left.insert(left.end(), late.begin(), late.end());
    seen.leftovers = left;
    for (int host = 0; host < job_->size(); ++host)
      read_host(host, seen);
    if (const auto run = job_->run(job_->coordinator())) read_metrics(*run, seen);
    seen.reference_wanted = flags_.compare && !interrupted();
    if (seen.reference_wanted) compare(seen);
  }

  // Of all hosts the one that coordinates counts; the others are to have the same.
  void read_host(int host, Observations& seen) {
    const auto run = job_->run(host);
    if (!run) return;
    const std::string& name = job_->hosts()[host].name();
    Observations here;
    read_checkpoints(*run, here);
    for (const std::string& reason : here.rejected)
      seen.rejected.push_back(fmt::format("{}: {}", name, reason));
    if (here.newest) seen.copies.push_back({name, *here.newest});
    const bool first = host == job_->coordinator();
    if (first) seen.newest = here.newest;
    if (!resolved_.job.ledger) return;
    data::LedgerReport ledger = read_ledger(*run, here.newest ? std::optional(here.newest->step) : std::nullopt);
    if (ledger.violation) ledger.violation = fmt::format("{}: {}", name, *ledger.violation);
    if (!seen.ledger || (!seen.ledger->violation && (first || ledger.violation))) seen.ledger = ledger;
  }

  void compare(Observations& seen) {
    if (!seen.newest) {
      seen.no_reference = "the job has left no checkpoint to compare";
      return;
    }
    teller_.tell(now(), fmt::format("undisturbed, one worker on one host, to step {}", seen.newest->step));
    try {
      const double limit = 60 + kLongestReference * static_cast<double>(seen.newest->step) * seen.step_seconds;
      seen.reference = job_->undisturbed(seen.newest->step, std::chrono::seconds(static_cast<int>(limit)));
    } catch (const Error& error) {
      seen.no_reference = error.what();
    }
  }

  const ChaosFlags& flags_;
  const trainer::ResolvedJob resolved_;
  FaultPlan plan_;
  const double start_ = look_clock();
  SignalWatch signals_{std::chrono::duration<double>(kHostsEndTime) * 2, [](const std::string&) {}};
  Teller teller_;
  std::optional<HostJob> job_;
  std::optional<HostFaultMaker> maker_;
  std::vector<ChaosSample> samples_;
  Look newest_;
  std::optional<std::uint64_t> acknowledged_;
  std::uint64_t last_step_ = 0;
  double last_commit_ = 0;
  // As in a job of one host, as ChaosSample::at.
  std::optional<double> calm_;
  std::optional<double> begin_;
  std::optional<double> end_;
  std::optional<double> told_to_stop_;
  double asked_ = 0;
};

}  // namespace

HostsChaosEnd disturb_hosts(const ChaosFlags& flags) {
  const FaultRates rates =
      parse_faults(flags.faults.empty() ? kUsualHostFaults : flags.faults, flags.rate, kHostFaults);
  require_possible(flags);
  trainer::ResolvedJob job = job_of(flags);
  require_supervised(job.job, flags.compare);
  require_hosts();
  HostsChaos chaos(flags, rates, std::move(job));
  HostsChaosEnd end{chaos.run()};
  end.interruption = chaos.exit_code();
  return end;
}

}  // namespace muster::cli
