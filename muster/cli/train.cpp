// muster train: a job file to a trained model. The same command is launcher and worker: with a rank in its environment
// it is one of the job's workers, else it starts them and supervises.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/memory.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/exit_code.h"
#include "muster/cli/federated_run.h"
#include "muster/cli/launched.h"
#include "muster/cli/progress.h"
#include "muster/cli/restart_note.h"
#include "muster/cli/runs.h"
#include "muster/cli/signals.h"
#include "muster/cli/ssh_gathering.h"
#include "muster/cli/store_flags.h"
#include "muster/cli/take_over.h"
#include "muster/cli/workers.h"
#include "muster/comm/mpi_transport.h"
#include "muster/control/store.h"
#include "muster/launch/environment.h"
#include "muster/launch/worker_words.h"
#include "muster/strategies/strategy_traits.h"
#include "muster/trainer/job_hosts.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/run_start.h"
#include "muster/trainer/trainer.h"
#include "muster/trainer/worker_place.h"

namespace muster::cli {
namespace {

struct TrainFlags {
  std::string job;
  std::vector<std::string> assignments;
  bool resume = false;
  std::string run;
  std::optional<std::uint64_t> until_epoch;
  bool quiet = false;
  bool json = false;
  double verify = 0;
  bool ignore_memory = false;
  ClusterFlags cluster;
  StoreFlags store;
};

std::string resume_command(const TrainFlags& flags, const std::string& run) {
  std::string command = "muster train " + flags.job;
  for (const std::string& assignment : flags.assignments)
    command += fmt::format(" --set '{}'", assignment);
  return command + " --resume --run " + run;
}

// What the host has left before the job takes anything: workers are told by the process that starts them, because when
// they look they have taken some of it already.
std::optional<Memory> usable_before() {
  const char* const told = std::getenv(kMemoryVariable);
  if (told == nullptr) return std::nullopt;
  std::istringstream words(told);
  Memory memory;
  if (!(words >> memory.usable_bytes)) return std::nullopt;
  std::getline(words >> std::ws, memory.reason);
  return memory;
}

// The run that the process which starts the workers has made or found; empty: it has named none.
std::filesystem::path told_run() {
  const char* const told = std::getenv(kRunVariable);
  return told == nullptr ? "" : told;
}

// This process as one of the job's workers.
void run_worker_aloud(const TrainFlags& flags, const trainer::ResolvedJob& resolved, launch::World world,
                      Outcome& outcome) {
  // MPI can be started once in a process, and groups come and go.
  std::shared_ptr<comm::MpiRuntime> mpi;
  if (!world.cluster.empty() && resolved.job.parallel.network == "mpi") {
    world.network = "mpi";
    mpi = comm::start_mpi();
  }
  // Only the view of the worker that leads is told anything.
  ProgressView view(style_for_output(flags.quiet, flags.json), stdout, stderr, terminal_width);
  // The launcher says what a signal leads to. Before the job's first step there is nothing to finish or to save.
  std::atomic<bool> trains = world.arena != "found" && world.arena != "join";
  SignalWatch signals(
      std::chrono::duration<double>(resolved.job.checkpoint.grace_seconds),
      [&](const std::string&) {
        if (!trains) ::_exit(128 + signals.for_workers());
      },
      {}, SignalWatch::Second::kIsTheSame);
  // Whoever reads what this process prints may be gone before the job ends.
  std::signal(SIGPIPE, SIG_IGN);
  Log log(LogLevel::kOff);  // people are told by the view; the run's log file gets everything
  trainer::TrainingOptions options;
  options.resume = flags.resume || !flags.run.empty();
  (options.resume ? options.run : options.begun) = told_run();
  if (options.resume && options.run.empty()) options.run = flags.run;
  // Where the state outlives a worker it can be replaced; elsewhere the job ends with it.
  if (resolved.job.parallel.chosen().traits().replaces_workers) {
    options.supervised = trainer::supervised_worker(world);
    options.supervised->grace_used = [&] { return signals.grace_used(); };
    // On several hosts nobody but a coordinator decides on members.
    if (options.supervised->host)
      options.supervised->patience = std::chrono::duration_cast<std::chrono::nanoseconds>(
          std::chrono::duration<double>(resolved.job.parallel.orphan_seconds));
  } else {
    const std::shared_ptr<trainer::WorkerPlace> worker = trainer::connect_worker(world);
    options.group = worker->group();
    options.met = worker->met();
  }
  options.note = [&](const std::string& note) { launch::leave_note(world.store, note); };
  options.until_epoch = flags.until_epoch;
  options.verify_rate = flags.verify;
  if (!flags.ignore_memory) options.usable_memory = usable_before();
  options.stop_requested = [&] {
    trains = true;
    return signals.stop_requested();
  };
  const trainer::TrainingResult result = trainer::train(resolved, options, view, log);
  std::string resume = resume_command(flags, result.run.string());
  // Where the first host listens, and what protects it, workers do not know.
  if (!world.cluster.empty()) resume += " --listen ADDRESS:PORT";
  if (result.leads) view.finished(result, resume);
  if (!result.saved)
    throw Error(ErrorKind::kIo, std::string(kNotSaved), result.run.string(),
                fmt::format("Make room there; then {} trains it again.", resume));
  // It may have learned from the others that all of them are to stop before a signal came to itself.
  if (result.end == trainer::TrainingResult::End::kInterrupted)
    outcome.exit_code = 128 + (signals.stop_requested() ? signals.for_workers() : SIGTERM);
  if (result.end != trainer::TrainingResult::End::kAbandoned) return;
  outcome.exit_code = 1;
  // Who made it cannot remove it any more.
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(world.store).parent_path(), ignored);
}

// The same. What ends this worker goes into the store, for the job's record; of several workers that end for one reason
// one says it to people. That a peer was lost is known to who lost it.
void run_worker(const TrainFlags& flags, const trainer::ResolvedJob& resolved, const launch::World& world,
                Outcome& outcome) {
  try {
    run_worker_aloud(flags, resolved, world, outcome);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kPeerLost) throw;
    if (launch::leave_reason(world.store, world.rank, world.attempt, error.what())) throw;
    outcome.exit_code = error.exit_code();
  } catch (const std::exception& error) {
    launch::leave_reason(world.store, world.rank, world.attempt, error.what());
    throw;
  }
}

// What the workers of other hosts are started with beside the job: where a run is kept is the first host's affair.
std::vector<std::string> arguments_elsewhere(const TrainFlags& flags) {
  std::vector<std::string> arguments{"--quiet"};
  if (flags.resume || !flags.run.empty()) arguments.emplace_back("--resume");
  if (flags.until_epoch) arguments.insert(arguments.end(), {"--until-epoch", fmt::format("{}", *flags.until_epoch)});
  if (flags.verify > 0) arguments.insert(arguments.end(), {"--verify", fmt::format("{}", flags.verify)});
  if (flags.ignore_memory) arguments.emplace_back("--ignore-memory");
  return arguments;
}

// Where nothing says how hosts find each other.
constexpr const char* kHowToStart =
    "Start it with --hosts a,b (by ssh), by srun or mpirun, or with --listen ADDRESS:PORT, and on the others: muster "
    "agent --join ADDRESS:PORT.";

std::optional<coordinator::JobHosts> job_hosts(const TrainFlags& flags, const trainer::ResolvedJob& resolved) {
  const auto& parallel = resolved.job.parallel;
  if (flags.cluster.listen.empty()) {
    if (parallel.hosts.least == 1) return std::nullopt;
    throw resolved.invalid("parallel.hosts", fmt::format("{} hosts have to find this one", parallel.hosts.least),
                           kHowToStart);
  }
  if (parallel.hosts.most == 1)
    throw resolved.invalid("parallel.hosts", "is 1: nobody could join by --listen",
                           "Set it to the number of hosts, or to a range as \"1:4\".");
  coordinator::JobHosts hosts = hosts_of(resolved);
  if (!flags.cluster.interface.empty()) hosts.interface = flags.cluster.interface;
  hosts.listen = listen_by(flags.cluster);
  hosts.arguments = arguments_elsewhere(flags);
  return hosts;
}

// So that the job is known while it loads. What stands in the way of going on with a run is said before that.
coordinator::JobFolder run_of(const TrainFlags& flags, const trainer::ResolvedJob& resolved) {
  if (flags.resume || !flags.run.empty()) return {.path = trainer::find_resumed(resolved, flags.run).path()};
  const trainer::Job& job = resolved.job;
  return coordinator::make_job_folder(
      job.runs, [&] { return trainer::RunFolder::create(job.runs, job.name, resolved.text).path(); });
}

// How this process is a node of several, and what stays when it is started again.
struct Node {
  launch::Surroundings surroundings;
  Gathering* gathering = nullptr;  // of several hosts
  RestartNote note;
};

// This process as the parent of the job's workers, which are this same program with the same arguments.
int run_workers(const TrainFlags& flags, const trainer::ResolvedJob& resolved,
                const std::vector<std::string>& arguments, const Node& node) {
  launch::Command command{own_program(), arguments, {{kMemoryVariable, memory_for_workers()}}};
  coordinator::CoordinatedJob job = coordinated_job(resolved);
  job.hosts = job_hosts(flags, resolved);
  if (!node.surroundings.launcher.empty()) job.started = launch::to_string(node.surroundings);
  if (node.gathering != nullptr) node.gathering->prepare(job);
  job.etcd = etcd_by(flags.store);
  if (job.etcd) control::make_etcd_store(*job.etcd)->revision();  // before anything is started
  // The first ones as copies of this process; those of a job with servers, other hosts or an etcd meet threads of ours.
  if (!resolved.job.parallel.chosen().traits().needs_servers && !job.hosts && !job.etcd) {
    command.copy = [&] {
      return exit_code_of([&] {
        Outcome of_worker;
        run_worker(flags, resolved, launch::detect_world(), of_worker);
        return of_worker.exit_code;
      });
    };
  }
  job.folder = run_of(flags, resolved);
  command.environment[kRunVariable] = job.folder.path.string();
  job.command = std::move(command);
  const int code = supervise_workers(std::move(job), [&node](const std::string& run) { node.note.remember(run); });
  if (code == 0) node.note.forget();
  return code;
}

// One more value over what the file says, for this process and for its workers.
void assign(const std::string& assignment, TrainFlags& flags, std::vector<std::string>& arguments) {
  flags.assignments.push_back(assignment);
  arguments.insert(arguments.end(), {"--set", assignment});
}

// As many hosts as were started, unless the job says itself how many there may be.
void take_hosts(int started, const trainer::ResolvedJob& resolved, TrainFlags& flags,
                std::vector<std::string>& arguments) {
  if (const auto assignment = trainer::hosts_assignment(resolved, started)) assign(*assignment, flags, arguments);
}

// Of a job that hosts do not share, before any of them begins it.
void require_one_host(const trainer::ResolvedJob& resolved, const ClusterFlags& flags) {
  if (flags.by_ssh() || !flags.listen.empty() || surroundings_for(flags).several())
    trainer::require_shared_by_hosts(resolved);
}

// Workers become ranks of the MPI whose process on this node has started them.
void require_network_here(const trainer::ResolvedJob& resolved, const ClusterFlags& flags,
                          const launch::Surroundings& surroundings) {
  if (resolved.job.parallel.network != "mpi") return;
  if (flags.listen.empty() && !flags.by_ssh() && !surroundings.several()) return;  // one host sends nothing
  if (!comm::mpi_available())
    throw resolved.invalid("parallel.network", "this build of Muster has no MPI",
                           "Install libopenmpi-dev and build again, or use gloo.");
  if (surroundings.ranks_of_mpi) return;
  throw resolved.invalid(
      "parallel.network",
      fmt::format("no MPI has started this process ({})",
                  surroundings.reason.empty() ? "--listen and --hosts start none" : surroundings.reason),
      "Start it by mpirun -N 1, or by srun --mpi=pmix; or use gloo.");
}

// As who has started it on each node: the first coordinates, the others are agents.
int run_node(TrainFlags flags, std::vector<std::string> arguments) {
  trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  const launch::Surroundings surroundings = surroundings_for(flags.cluster);
  const std::filesystem::path runs = resolved.job.runs;
  require_network_here(resolved, flags.cluster, surroundings);
  flags.cluster.over_mpi = resolved.job.parallel.network == "mpi";
  if (surroundings.node > 0) return run_other_node(surroundings, runs, flags.cluster, std::nullopt);
  Node node{surroundings, nullptr, RestartNote(runs, surroundings)};
  if (!flags.resume && flags.run.empty()) {
    if (const auto run = node.note.run()) {
      tell(fmt::format("started again: going on with {}", run->string()));
      flags.run = run->string();
      arguments.insert(arguments.end(), {"--run", flags.run});
    }
  }
  std::unique_ptr<Gathering> gathering;
  if (flags.cluster.by_ssh()) {
    auto by_ssh = std::make_unique<SshGathering>(flags.cluster);
    take_hosts(by_ssh->hosts(), resolved, flags, arguments);
    if (by_ssh->own_workers()) assign(fmt::format("parallel.workers={}", *by_ssh->own_workers()), flags, arguments);
    gathering = std::move(by_ssh);
  } else if (!surroundings.launcher.empty()) {
    take_hosts(surroundings.nodes, resolved, flags, arguments);
    if (surroundings.several()) gathering = std::make_unique<FirstNode>(surroundings, runs, flags.cluster);
  }
  node.gathering = gathering.get();
  const auto body = [&] {
    resolved = trainer::load_job(flags.job, flags.assignments);
    return run_workers(flags, resolved, arguments, node);
  };
  return gathering ? run_gathered(*gathering, body) : body();
}

// The run to be resumed, if there is one and somebody trains it still: its workers may have lost their coordinator.
std::optional<std::filesystem::path> living_run(const TrainFlags& flags, const trainer::Job& job) {
  if (!flags.resume && flags.run.empty()) return std::nullopt;
  std::optional<std::filesystem::path> run;
  if (!flags.run.empty())
    run = flags.run;
  else if (const auto newest = trainer::RunFolder::newest(job.runs, job.name))
    run = newest->path();
  if (!run || !is_alive(*run)) return std::nullopt;
  return run;
}

void run_train(const TrainFlags& flags, const std::vector<std::string>& arguments, Outcome& outcome) {
  const trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  if (resolved.job.federated.chosen() || resolved.job.is_vertical()) require_one_host(resolved, flags.cluster);
  if (resolved.job.federated.chosen()) {
    if (flags.until_epoch || flags.verify > 0)
      throw Error(ErrorKind::kInvalidInput, "--until-epoch and --verify are not for jobs that clients train", flags.job,
                  "Use federated.rounds.");
    outcome.exit_code = simulate_job(flags.job, flags.assignments, {flags.resume, flags.run}, flags.json, flags.quiet);
    return;
  }
  const launch::World world = launch::detect_world();
  if (world.launcher != "muster") {
    if (const auto run = living_run(flags, resolved.job)) {
      outcome.exit_code = take_over_workers(*run, flags.cluster, etcd_by(flags.store));
      return;
    }
  }
  if (world.launcher == "muster")
    run_worker(flags, resolved, world, outcome);
  else
    outcome.exit_code = run_node(flags, arguments);
}

}  // namespace

void add_train(CLI::App& app, const std::vector<std::string>& arguments, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a job file describes.");
  auto flags = std::make_shared<TrainFlags>();
  command->add_option("job", flags->job, "The job file (TOML); its keys: docs/job-file.md")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--resume", flags->resume, "Go on from the newest whole checkpoint of the job's newest run");
  command->add_option("--run", flags->run, "Like --resume, of the run in this folder");
  command
      ->add_option("--until-epoch", flags->until_epoch,
                   "Pause after so many epochs of those the job has, with a checkpoint; --resume goes on to the same "
                   "result")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000000000}));
  command->add_flag("--quiet,-q", flags->quiet, "No progress; warnings and errors only");
  command->add_flag("--json", flags->json, "One JSON object a line instead of text");
  command
      ->add_option("--verify", flags->verify,
                   "Compute this share of all lanes once more, on another worker, and compare every bit")
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--ignore-memory", flags->ignore_memory,
                    "Start a job even if it seems to need more memory than this host has");
  add_listen_flags(*command, flags->cluster);
  add_store_flags(*command, flags->store);
  command->add_option("--hosts", flags->cluster.hosts,
                      "Train on these hosts, this one among them, reached by ssh: a:4,b:4 with 4 workers on each");
  add_node_flags(*command, flags->cluster);
  command->footer(
      "Everything about a run is in runs/NAME-TIME: job.toml (with every default), metrics.jsonl, log.txt, "
      "checkpoints/.\n"
      "Ctrl-C or SIGTERM finishes the step, writes a checkpoint and exits with 130 or 143; a second one stops at "
      "once.\n"
      "\nExamples:\n"
      "  muster train examples/fashion.toml\n"
      "  muster train job.toml --set optimizer.lr=0.05 --set job.epochs=3\n"
      "  muster train job.toml --set parallel.workers=4     the same result, sooner\n"
      "  muster train job.toml --resume\n"
      "  muster train job.toml --json | jq .accuracy\n"
      "  muster train job.toml --listen 127.0.0.1:7400      waits for parallel.hosts: muster agent --join, on each\n"
      "  muster train job.toml --listen 10.0.0.1:7400 --certs coordinator   with certificates: muster certs create\n"
      "  muster train job.toml --store etcd://127.0.0.1:2379                muster coordinator --standby takes over");
  command->callback([flags, arguments, &outcome] { run_train(*flags, arguments, outcome); });
}

}  // namespace muster::cli
