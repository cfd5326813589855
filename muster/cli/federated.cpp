// muster federated: rounds of clients that keep their data. `simulate` has all of them as virtual ones in this process
// and its workers; a run's folder holds the job, a row for each round, the state to go on from and the model.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/process_memory.h"
#include "muster/cli/command.h"
#include "muster/cli/federated_run.h"
#include "muster/federated/accountant.h"
#include "muster/federated/round_change.h"
#include "muster/federated/run_state.h"
#include "muster/federated/simulation.h"
#include "muster/federated/worker_pool.h"
#include "muster/launch/stop_signal.h"
#include "muster/launch/surroundings.h"
#include "muster/observe/metrics_log.h"
#include "muster/trainer/client_training.h"
#include "muster/trainer/datasets.h"
#include "muster/trainer/federated_check.h"
#include "muster/trainer/job.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/job_hosts.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_lock.h"

namespace muster::cli {
namespace {

struct SimulateFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::optional<std::uint64_t> clients;
  std::optional<std::uint64_t> per_round;
  std::optional<std::uint64_t> rounds;
  int workers = 0;
  bool resume = false;
  std::string run;
  bool json = false;
  bool quiet = false;
};

constexpr std::chrono::seconds kLockPatience{5};

// What `muster check` refuses, too, before there is a folder of a run. In a process of its own: copies of this one are
// to compute with LibTorch.
void check_apart(const trainer::ResolvedJob& resolved, const trainer::Datasets& sets,
                 const std::function<bool()>& keep_on) {
  trainer::check_virtual_clients(resolved, sets);
  federated::WorkerPool pool({.workers = 1}, [&]() -> federated::WorkerPool::Work {
    return [&](const federated::Order& order) {
      trainer::check_client_model(resolved, sets);
      return federated::Answer{.piece = order.piece};
    };
  });
  const federated::Order order;
  pool.run(
      std::span(&order, 1), [](const federated::Answer&) {}, keep_on);
}

// Flags are short ways of saying --set.
std::vector<std::string> assignments_of(const SimulateFlags& flags) {
  std::vector<std::string> assignments = flags.assignments;
  const auto add = [&](const char* key, const std::optional<std::uint64_t>& value) {
    if (value) assignments.push_back(fmt::format("federated.{}={}", key, *value));
  };
  add("clients", flags.clients);
  add("per_round", flags.per_round);
  add("rounds", flags.rounds);
  return assignments;
}

class SimulatedRun {
 public:
  SimulatedRun(const SimulateFlags& flags, const trainer::ResolvedJob& resolved)
      : flags_(flags),
        resolved_(resolved),
        options_(resolved.job.federated),
        submodels_(trainer::submodel_jobs(resolved)) {}

  int run() {
    const trainer::Datasets sets = trainer::open_data(resolved_);
    const federated::ClientSplit split = trainer::make_client_split(resolved_, *sets.train);
    check_apart(resolved_, sets, keep_on_);
    const trainer::RunFolder folder = open_federated_run(flags_.resume, flags_.run, resolved_);
    const trainer::RunLock lock(folder.path(), Deadline::after(kLockPatience));
    Log log(LogLevel::kOff);
    log.open_file(folder.log_file());
    federated::Simulation simulation(simulation_options(sets, folder), split, keep_on_);
    const federated::StateFile state(folder.path() / "state.safetensors");
    if (flags_.resume || !flags_.run.empty()) {
      if (const auto kept = state.read()) {
        simulation.restore(*kept);
        mend_rows(folder.metrics_file(), *kept);
      }
    }
    observe::MetricsLog metrics(folder.metrics_file());
    write_federated_card(folder.path(), resolved_, sets, simulation.parameter_count(), nullptr);
    tell_start(simulation, folder, log);
    try {
      go_through_rounds(simulation, state, metrics, log);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) {
        log.error(error.what());
        throw;
      }
    }
    if (signal_.number() != 0) return stopped(simulation, folder);
    if (last_.round == 0 && has_ended(folder.metrics_file(), simulation.rounds())) {
      tell(fmt::format("it had ended after {} rounds; nothing has changed", simulation.rounds()), log);
      return 0;
    }
    if (last_.round == 0) last_ = report_of_before(simulation);  // it was killed between its last round and its end
    simulation.save(folder.path() / "model.safetensors", [] { return true; });
    write_federated_card(folder.path(), resolved_, sets, simulation.parameter_count(), &last_);
    MUSTER_FAILPOINT("federated.simulate.before_end");
    tell_end(simulation, folder, metrics);
    return 0;
  }

 private:
  federated::SimulationOptions simulation_options(const trainer::Datasets& sets,
                                                  const trainer::RunFolder& folder) const {
    federated::SimulationOptions options;
    options.federated = options_;
    options.seed = static_cast<std::uint64_t>(resolved_.job.seed);
    options.workers = flags_.workers;
    options.client_states = folder.path() / "clients";
    options.make_training = [this, &sets] { return trainer::make_client_training(resolved_, sets); };
    options.make_submodel = [this, &sets](std::size_t index) {
      return trainer::make_client_training(submodels_.at(index), sets);
    };
    return options;
  }

  void go_through_rounds(federated::Simulation& simulation, const federated::StateFile& state,
                         observe::MetricsLog& metrics, Log& log) {
    while (simulation.rounds() < static_cast<std::uint64_t>(options_.rounds)) {
      if (const auto ending = simulation.ending()) {
        tell(*ending, log);
        spent_ = true;
        return;
      }
      last_ = simulation.round(keep_on_);
      federated::State after = simulation.state();
      after.row = row_of_round(last_).dump();
      state.write(after);
      MUSTER_FAILPOINT("federated.simulate.before_row");
      metrics.write(row_of_round(last_));
      client_rounds_ += last_.plan.counts.size();
      seconds_ += last_.seconds;
      const std::string line = line_of_round(last_, options_.rounds);
      log.info(line);
      if (flags_.json)
        print_line(row_of_round(last_).dump());
      else if (!flags_.quiet)
        print_line(line);
      if (signal_.number() != 0) return;
    }
  }

  void tell_start(const federated::Simulation& simulation, const trainer::RunFolder& folder, Log& log) const {
    tell(fmt::format("{} clients ({}), {} a round, {}, {} workers; run {}", options_.clients, options_.split,
                     options_.per_round, options_.algorithm, flags_.workers, folder.path().string()),
         log);
    if (simulation.rounds() > 0) tell(fmt::format("goes on after round {}", simulation.rounds()), log);
    if (options_.noise > 0 && options_.epsilon) {
      const double part = static_cast<double>(options_.per_round) / static_cast<double>(options_.clients);
      tell(fmt::format("epsilon {} allows {} rounds", *options_.epsilon,
                       federated::rounds_within({options_.noise, part}, *options_.epsilon, options_.delta)),
           log);
    }
  }

  void tell_end(const federated::Simulation& simulation, const trainer::RunFolder& folder,
                observe::MetricsLog& metrics) const {
    Json row{{"event", "finished"},
             {"rounds", simulation.rounds()},
             {"clients", options_.clients},
             {"client_rounds", client_rounds_},
             {"seconds", seconds_},
             {"client_rounds_per_second", seconds_ > 0 ? static_cast<double>(client_rounds_) / seconds_ : 0},
             {"virtual_seconds", last_.virtual_seconds},
             {"budget_spent", spent_},
             {"run", folder.path().string()}};
    row["peak_memory_mb"] = std::round(static_cast<double>(last_.peak_memory) / 1e5) / 10;
    if (last_.epsilon) row["epsilon"] = *last_.epsilon;
    if (last_.sample_epsilon) row["sample_epsilon"] = *last_.sample_epsilon;
    if (last_.test) {
      row["test_loss"] = last_.test->loss;
      for (const auto& [name, value] : last_.test->metrics)
        row[name] = value;
    }
    metrics.write(row);
    if (flags_.json) {
      print_line(row.dump());
    } else if (!flags_.quiet) {
      print_line(fmt::format("{} rounds, {:.1f} client rounds/s, model in {}", simulation.rounds(),
                             row["client_rounds_per_second"].get<double>(),
                             (folder.path() / "model.safetensors").string()));
    }
  }

  // Figures of a run whose last round was done by a process before this one.
  federated::RoundReport report_of_before(federated::Simulation& simulation) const {
    return {.round = simulation.rounds(),
            .test = simulation.evaluate([] { return true; }),
            .epsilon = federated::epsilon_after(options_, simulation.rounds()),
            .sample_epsilon = simulation.sample_epsilon(),
            .virtual_seconds = simulation.state().virtual_seconds};
  }

  int stopped(const federated::Simulation& simulation, const trainer::RunFolder& folder) const {
    if (!flags_.quiet && !flags_.json)
      print_line(fmt::format("stopped after round {}; go on with: muster federated simulate {}{} --run {}",
                             simulation.rounds(), flags_.job, settings(), folder.path().string()));
    return 128 + signal_.number();
  }

  // What was said beside the job file, as it is to be typed again.
  std::string settings() const {
    std::string words;
    for (const std::string& assignment : assignments_of(flags_))
      words += fmt::format(" --set '{}'", assignment);
    return words;
  }

  void tell(const std::string& line, Log& log) const {
    log.info(line);
    if (!flags_.json && !flags_.quiet) print_line(line);
  }

  const SimulateFlags& flags_;
  const trainer::ResolvedJob& resolved_;
  const federated::Options& options_;
  const std::vector<trainer::ResolvedJob> submodels_;
  const launch::StopSignal signal_;
  const std::function<bool()> keep_on_ = [this] { return signal_.number() == 0; };
  federated::RoundReport last_;
  std::uint64_t client_rounds_ = 0;
  double seconds_ = 0;
  bool spent_ = false;
};

int run_simulate(SimulateFlags& flags, const trainer::ResolvedJob& resolved) {
  require_federated(resolved);
  if (launch::detect_surroundings().several()) trainer::require_shared_by_hosts(resolved);
  if (flags.workers == 0) flags.workers = usable_cores().usable;
  return SimulatedRun(flags, resolved).run();
}

void add_simulate(CLI::App& federated, Outcome& outcome) {
  CLI::App* command = federated.add_subcommand("simulate", "Rounds of virtual clients on this machine.");
  auto flags = std::make_shared<SimulateFlags>();
  command->add_option("job", flags->job, "The job file (TOML), with a section [federated]")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--clients", flags->clients, "How many clients there are (federated.clients)");
  command->add_option("--per-round", flags->per_round, "Clients of a round (federated.per_round)");
  command->add_option("--rounds", flags->rounds, "Rounds (federated.rounds)");
  command->add_option("--workers", flags->workers, "Processes that train; the result is the same. Default: the cores")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--resume", flags->resume, "Go on after the last whole round of the job's newest run");
  command->add_option("--run", flags->run, "Like --resume, of the run in this folder");
  command->add_flag("--json", flags->json, "One JSON object a round, and one at the end");
  command->add_flag("--quiet,-q", flags->quiet, "Errors only");
  command->footer(
      "A run's folder has job.toml, metrics.jsonl (a row a round), state.safetensors (to go on from) and, at the end,\n"
      "model.safetensors. Ctrl-C ends it after the last whole round. Keys of [federated]: docs/job-file.md.\n"
      "\nExamples:\n"
      "  muster federated simulate examples/federated.toml\n"
      "  muster federated simulate examples/federated.toml --set federated.split=dirichlet:0.1 "
      "--set federated.algorithm=scaffold\n"
      "  muster federated simulate examples/federated.toml --clients 1000000 --per-round 1000 --rounds 3 "
      "--set federated.client_samples=60");
  command->callback([flags, &outcome] {
    outcome.exit_code = run_simulate(*flags, trainer::load_job(flags->job, assignments_of(*flags)));
  });
}

}  // namespace

int simulate_job(const std::string& job, const std::vector<std::string>& assignments, const ResumeChoice& resume,
                 bool json, bool quiet) {
  SimulateFlags flags;
  flags.job = job;
  flags.assignments = assignments;
  flags.resume = resume.newest;
  flags.run = resume.run;
  flags.json = json;
  flags.quiet = quiet;
  return run_simulate(flags, trainer::load_job(job, assignments));
}

void add_federated(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("federated", "Train with clients that keep their data.");
  command->require_subcommand(1);
  add_simulate(*command, outcome);
  add_federated_server(*command, outcome);
  add_federated_client(*command, outcome);
  add_federated_status(*command);
  add_federated_vertical(*command, outcome);
  command->footer("What is protected from whom, the algorithms, and a first hour: docs/federated.md.");
}

}  // namespace muster::cli
