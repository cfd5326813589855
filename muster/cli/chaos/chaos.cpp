// muster chaos: disturbs a job that trains, and checks in the end that nothing was lost by it. The parts are beside it:
// plan (when), faults (how), watch (what is seen), checks (what it proves), report.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/cli/chaos/chaos.h"
#include "muster/cli/chaos/faults.h"
#include "muster/cli/chaos/job.h"
#include "muster/cli/chaos/look.h"
#include "muster/cli/chaos/plan.h"
#include "muster/cli/chaos/report.h"
#include "muster/cli/chaos/teller.h"
#include "muster/cli/chaos/throughput.h"
#include "muster/cli/chaos/watch.h"
#include "muster/cli/command.h"
#include "muster/cli/runs.h"
#include "muster/cli/signals.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/job.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};
constexpr std::chrono::seconds kCommandTime{10};
constexpr std::chrono::seconds kEndTime{60};
constexpr std::chrono::minutes kStartTime{2};
constexpr double kRest = 60;    // seconds after the last fault in which all should train again
constexpr double kStuck = 120;  // seconds without a commit after which nobody waits any longer

std::string summary_of(const control::JobStatus& status, std::size_t faults) {
  return fmt::format("step {} of {}, {:.0f} samples/s, {} worker{}, generation {}; {} fault{}", status.step,
                     status.total_steps, status.samples_per_second, status.members.size(),
                     status.members.size() == 1 ? "" : "s", status.generation, faults, faults == 1 ? "" : "s");
}

bool is_job_file(const std::string& job) {
  std::error_code code;
  return job.ends_with(".toml") && std::filesystem::is_regular_file(job, code);
}

class Chaos {
 public:
  Chaos(const ChaosFlags& flags, FaultRates rates) : flags_(flags), plan_(rates, flags.seed) {}

  ChaosReport run() {
    open();
    watch_.emplace(run_);
    FaultMakerOptions options;
    options.liveness = job_.parallel.liveness_seconds;
    options.tell = [this](const std::string& text) { teller_.tell(watch_->now(), text); };
    options.replace_coordinator = [this] { program_.emplace(std::vector<std::string>{"attach", run_.string()}, log_); };
    maker_.emplace(options);
    disturb();
    teller_.end();
    return judge();
  }

  int exit_code() const { return signals_.exit_code(); }

 private:
  // Finds the job, or starts it.
  void open() {
    if (!flags_.reference.empty()) find_run(flags_.reference, flags_.runs);  // a mistake is told before anything starts
    if (is_job_file(flags_.job)) {
      job_ = trainer::load_job(flags_.job, flags_.assignments).job;
      require_supervised(job_, flags_.compare || !flags_.reference.empty());
      std::filesystem::create_directories(job_.runs);
      log_ = std::filesystem::path(job_.runs) / fmt::format("chaos-{}.log", job_.name);
      std::filesystem::remove(log_);
      std::vector<std::string> arguments{"train", flags_.job, "--quiet"};
      for (const std::string& assignment : flags_.assignments)
        arguments.insert(arguments.end(), {"--set", assignment});
      program_.emplace(arguments, log_);
      run_ = program_->find_run(job_.runs, Deadline::after(kStartTime));
      own_ = true;
    } else {
      if (!flags_.assignments.empty())
        throw Error(ErrorKind::kInvalidInput, "--set is for a job that chaos starts itself", flags_.job,
                    "Give the job's file instead of its run.");
      run_ = find_run(flags_.job, flags_.runs);
      job_ = trainer::parse_job(trainer::RunFolder::open(run_).job(), (run_ / "job.toml").string()).job;
      require_supervised(job_, flags_.compare || !flags_.reference.empty());
      if (!is_alive(run_))
        throw Error(ErrorKind::kNotFound, "the job does not run", run_.string(),
                    "Start it, or give its job file: then chaos starts it.");
      log_ = run_ / "chaos.log";
    }
    teller_.tell(0, fmt::format("{}; what it prints: {}", run_.string(), log_.string()));
  }

  bool interrupted() const { return signals_.stop_requested(); }

  bool all_train(const control::JobStatus& status) const {
    const auto running =
        std::count_if(status.members.begin(), status.members.end(), [](const auto& member) { return member.member(); });
    return status.live && running > 0 && running >= status.target_workers && status.step > 0;
  }

  // A calm time, faults, and the job's end.
  void disturb() {
    std::optional<PlannedFault> planned;
    for (;;) {
      const control::JobStatus& status = watch_->look();
      const double now = watch_->now();
      maker_->look(status, now);
      if (watch_->over()) break;
      if (status.live) teller_.summary(now, summary_of(status, maker_->faults().size()));
      if (!calm_ && all_train(status)) calm_ = now;
      if (calm_ && !begin_ && now - *calm_ >= flags_.calm_seconds) begin_ = now;
      const bool late = begin_ && now - *begin_ >= 60 * flags_.minutes;
      if (!end_ && (late || interrupted())) {
        maker_->end(now);
        end_ = now;
      }
      if (begin_ && !end_) {
        if (!planned) planned = plan_.next();
        if (now - *begin_ >= planned->at && maker_->ready() && maker_->make(*planned, now)) planned.reset();
      }
      const bool stop = flags_.then == "stop" || (own_ && interrupted());
      // With all of them back: who is only starting cannot write the last checkpoint.
      const bool rested = end_ && maker_->settled() && (all_train(status) || now - *end_ > kRest || interrupted());
      if (rested && stop && !told_to_stop_ && tell_to_stop()) told_to_stop_ = now;
      if (interrupted() && !own_) break;
      if (now - watch_->last_commit() > kStuck) {
        teller_.tell(now, fmt::format("nothing was committed for {:.0f} s: nobody waits any longer", kStuck));
        break;
      }
      system_clock().sleep_for(kLookInterval);
    }
    // The end of training is the end of what is measured; what follows is the last validation and the checkpoint.
    if (begin_ && !end_) end_ = watch_->last_commit();
    if (program_ && watch_->over()) program_->wait(Deadline::after(kCommandTime));
    if (program_ && own_ && !watch_->over()) program_->stop(Deadline::after(kEndTime));
  }

  bool tell_to_stop() {
    try {
      watch_->client().stop(Deadline::after(kCommandTime));
      return true;
    } catch (const Error&) {
      return false;  // no coordinator at the moment, or the job has just ended: the next look tells
    }
  }

  ChaosReport judge() {
    Observations seen = watch_->conclude(job_.ledger);
    seen.faults = maker_->faults();
    seen.liveness = job_.parallel.liveness_seconds;
    seen.told_to_stop = told_to_stop_;
    double rate = calm_ ? step_rate(seen.samples, *calm_, begin_.value_or(watch_->now())) : 0;
    if (rate > 0) seen.step_seconds = 1 / rate;
    seen.no_reference = "no undisturbed run to compare with: --compare makes one, --reference names one";
    seen.reference_wanted = (flags_.compare || !flags_.reference.empty()) && !interrupted() && seen.over;
    if (seen.reference_wanted) rate = compare(seen, rate);
    ChaosReport report;
    report.run = run_.string();
    report.seed = flags_.seed;
    report.faults = maker_->faults();
    report.failed_faults = maker_->failed();
    report.goal = flags_.goal;
    if (begin_) {
      report.seconds = *end_ - *begin_;
      report.throughput = throughput(seen.samples, report.faults, *begin_, *end_, rate, seen.liveness, workers());
    }
    report.findings = check_invariants(seen);
    return report;
  }

  int workers() const { return static_cast<int>(job_.parallel.workers.most); }

  // The weights of a run that nobody disturbed, at the same step; the rate of that run if it is made here.
  double compare(Observations& seen, double rate) {
    if (!seen.newest) {
      seen.no_reference = "the job has left no checkpoint to compare";
      return rate;
    }
    try {
      if (flags_.reference.empty()) return train_undisturbed(seen);
      seen.reference = stored_weights(find_run(flags_.reference, flags_.runs), seen.newest->step);
    } catch (const Error& error) {
      seen.no_reference = error.what();
    }
    return rate;
  }

  // The same job, as the run's folder has it, up to the step at which the disturbed one ended.
  double train_undisturbed(Observations& seen) {
    const std::filesystem::path folder = run_ / "chaos";
    std::filesystem::create_directories(folder);
    const std::uint64_t step = seen.newest->step;
    // At the end of an epoch only every_epochs makes it write one. Enough stay for that one to be read in peace.
    StartedProgram program(
        {"train", (run_ / "job.toml").string(), "--quiet", "--set", fmt::format("job.runs={}", folder.string()),
         "--set", fmt::format("checkpoint.every_steps={}", step), "--set", "checkpoint.every_epochs=1", "--set",
         "checkpoint.keep=10"},
        log_);
    JobWatch watch(program.find_run(folder, Deadline::after(kStartTime)));
    teller_.tell(watch_->now(), fmt::format("undisturbed, to step {}, for comparison: {}", step, watch.run().string()));
    std::optional<double> begin;
    while (!watch.over() && !has_checkpoint(watch.run(), step) && !interrupted()) {
      const control::JobStatus& status = watch.look();
      if (status.live) teller_.summary(watch_->now(), summary_of(status, 0));
      if (!begin && all_train(status)) begin = watch.now();
      if (watch.now() - watch.last_commit() > kStuck)
        throw Error(ErrorKind::kTimeout, "the undisturbed run does not get on", watch.run().string());
      system_clock().sleep_for(kLookInterval);
    }
    teller_.end();
    seen.reference = stored_weights(watch.run(), step);
    program.wait(Deadline::after(std::chrono::seconds(2)));  // it may have reached its own end
    program.stop(Deadline::after(kEndTime));
    return begin ? step_rate(watch.samples(), *begin, watch.last_commit()) : 0;
  }

  const ChaosFlags& flags_;
  FaultPlan plan_;
  SignalWatch signals_{std::chrono::duration<double>(kEndTime) * 2, [](const std::string&) {}};
  Teller teller_;
  trainer::Job job_;
  std::filesystem::path run_;
  std::filesystem::path log_;
  bool own_ = false;
  std::optional<StartedProgram> program_;
  std::optional<JobWatch> watch_;
  std::optional<FaultMaker> maker_;
  // When the calm time, the faults began, when these ended, and when the job was told to; as ChaosSample::at.
  std::optional<double> calm_;
  std::optional<double> begin_;
  std::optional<double> end_;
  std::optional<double> told_to_stop_;
};

void print(const ChaosFlags& flags, const ChaosReport& report) {
  if (flags.json)
    fmt::print("{}\n", to_json(report).dump());
  else
    fmt::print("{}", to_text(report));
}

void run_chaos(const ChaosFlags& flags, Outcome& outcome) {
  if (flags.role == kLookRole) keep_looking(flags.job, flags.runs, kLooksFile);
  if (flags.hosts > 0) {
    const HostsChaosEnd end = disturb_hosts(flags);
    print(flags, end.report);
    outcome.exit_code = end.interruption != 0 ? end.interruption : end.report.good() ? 0 : 1;
    return;
  }
  const FaultRates rates = parse_faults(flags.faults.empty() ? kUsualFaults : flags.faults, flags.rate);
  if (rates.contains(Fault::kOom)) {
    if (const std::optional<std::string> obstacle = FaultMaker::oom_obstacle())
      throw Error(ErrorKind::kInvalidInput, fmt::format("oom is not possible here: {}", *obstacle), "--faults",
                  "It takes root and a memory control group; leave oom out.");
  }
  Chaos chaos(flags, rates);
  const ChaosReport report = chaos.run();
  print(flags, report);
  outcome.exit_code = chaos.exit_code() != 0 ? chaos.exit_code() : report.good() ? 0 : 1;
}

}  // namespace

void require_supervised(const trainer::Job& job, bool compares) {
  const strategies::StrategyChoice& strategy = job.parallel.chosen();
  if (compares && !strategy.traits().keeps_bits)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("no two runs of a job with strategy {} end with the same weights, with these options",
                            strategy.name()),
                {},
                fmt::format("Leave --compare and --reference, or choose what keeps the bits: {}, with their defaults.",
                            strategies::strategies_with(&strategies::Traits::keeps_bits)));
  if (strategy.traits().replaces_workers) return;
  throw Error(ErrorKind::kInvalidInput, fmt::format("a job with strategy {} does not outlive a fault", strategy.name()),
              {},
              fmt::format("Chaos is for strategies that replace lost workers: {}.",
                          strategies::strategies_with(&strategies::Traits::replaces_workers)));
}

void add_chaos(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("chaos", "Kill and stop a job's processes, and check that nothing is lost.");
  auto flags = std::make_shared<ChaosFlags>();
  command->add_option("job", flags->job, "A job that runs (folder, name, beginning of it), or a job file to start")
      ->required();
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->add_option("--set", flags->assignments, "With a job file: as for muster train")->allow_extra_args(false);
  command->add_option(
      "--faults", flags->faults,
      "Of kill, stop, oom, coordinator; with --hosts of host, freeze, link, oneway, split, coordinator; "
      "with a rate for each (kill=12,stop=2) or --rate for all [kill,stop; with --hosts all but the last]");
  command->add_option("--rate", flags->rate, "Faults a minute, of all kinds together")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "Decides when, what and whom")->capture_default_str();
  command
      ->add_option("--hosts", flags->hosts,
                   "With a job file: train on so many hosts, which are made for it (network namespaces; as root), and "
                   "disturb these")
      ->check(CLI::Range(2, 16));
  command->add_option("--count", flags->count, "With --hosts: no more faults than these")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--role", flags->role)->check(CLI::IsMember({kLookRole}))->group("");  // of its own processes
  command->add_option("--minutes", flags->minutes, "Longest time with faults")
      ->check(CLI::Range(0.01, 1e5))
      ->capture_default_str();
  command->add_option("--calm", flags->calm_seconds, "Seconds without faults at first, to measure the rate")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  command->add_option("--then", flags->then, "After the faults: wait for the job's end, or stop it")
      ->check(CLI::IsMember({"wait", "stop"}))
      ->capture_default_str();
  auto* compare = command->add_flag("--compare", flags->compare,
                                    "Train the same job undisturbed afterwards, and compare weights and rate");
  command->add_option("--reference", flags->reference, "An undisturbed run of the same job, to compare weights with")
      ->excludes(compare);
  command->add_option("--goal", flags->goal, "Fail below this share of the ideal throughput")
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--json", flags->json, "The result as one JSON object");
  command->footer(
      "Checks in the end: every sample exactly once, the weights of an undisturbed run, nothing ever went back, the\n"
      "newest checkpoint is whole, nothing stood still for long, nothing is left (docs/chaos.md). Exit code "
      "1\nif one of these fails.\n"
      "\nExamples:\n"
      "  muster chaos fashion                                  the job that runs, 6 faults a minute for 5 minutes\n"
      "  muster chaos job.toml --faults kill=12,stop=2 --minutes 30 --then stop --compare\n"
      "  muster chaos job.toml --faults kill,stop,oom,coordinator --rate 20 --seed 7 --json | jq .good\n"
      "  muster chaos job.toml --hosts 3 --faults host,coordinator,split --count 10 --then stop --compare");
  command->callback([flags, &outcome] { run_chaos(*flags, outcome); });
}

}  // namespace muster::cli
