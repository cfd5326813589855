// muster run: N processes of a user's program as the workers of one job. From the program's name on all words are the
// program's, so flags of ours come before it.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/base/error.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/exit_code.h"
#include "muster/cli/launched.h"
#include "muster/cli/program_job.h"
#include "muster/cli/ssh_gathering.h"
#include "muster/cli/worker_lines.h"
#include "muster/cli/workers.h"
#include "muster/launch/environment.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::int64_t kMostWorkers = 64;
constexpr std::int64_t kMostHosts = 1024;
constexpr const char* kHostsByDefault = "2";
// Lanes are the program's own affair. Hosts share these by speed, and the program's in the same proportion.
constexpr std::size_t kSharesOfHosts = 1024;

struct RunFlags {
  std::string workers;
  std::string runs = "runs";
  ProgramJob job;
  std::string hosts;
  double host_seconds = 5;
  int servers = 0;
  int copies = 1;
  int max_restarts = 0;
  bool logs = false;
  bool prefix = false;
  ClusterFlags cluster;
};

IntegerRange parse_range(const std::string& flag, const std::string& text, std::int64_t most) {
  // One number is a range too.
  const bool number = text.find(':') == std::string::npos;
  const std::optional<IntegerRange> range = parse_integer_range(number ? text + ":" + text : text);
  if (!range || range->least < 1 || range->most < range->least || range->most > most)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("{} {}: it takes a number from 1 to {}, or a range of them", flag, text, most), {},
                fmt::format("muster run {} 4 ./my_program, or {} 1:4", flag, flag));
  return *range;
}

std::optional<coordinator::JobHosts> hosts_of(const RunFlags& flags, const ProgramJob& program) {
  if (flags.cluster.listen.empty()) {
    if (flags.hosts.empty()) return std::nullopt;
    throw Error(ErrorKind::kInvalidInput, fmt::format("--hosts {}: other hosts have to find this one", flags.hosts), {},
                "Start it with --listen ADDRESS:PORT, and on the others: muster agent --join ADDRESS:PORT.");
  }
  const IntegerRange range = parse_range("--hosts", flags.hosts.empty() ? kHostsByDefault : flags.hosts, kMostHosts);
  if (range.most == 1)
    throw Error(ErrorKind::kInvalidInput, "--hosts 1: nobody could join by --listen", {},
                "Give the number of hosts, or a range as 1:4.");
  coordinator::JobHosts hosts;
  hosts.least = static_cast<std::size_t>(range.least);
  hosts.most = static_cast<std::size_t>(range.most);
  hosts.lanes = kSharesOfHosts;
  hosts.patience =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags.host_seconds));
  hosts.interface = flags.cluster.interface;
  hosts.listen = listen_by(flags.cluster);
  hosts.program = program.to_text();
  return hosts;
}

// A folder that cannot be made costs the commands, not the job.
coordinator::JobFolder folder_of(const std::string& runs, const std::string& name) {
  try {
    return coordinator::make_job_folder(runs, [&] { return trainer::RunFolder::make(runs, name); });
  } catch (const Error& error) {
    tell(fmt::format("muster status and other commands cannot reach this job: {}", error.what()));
    return {};
  }
}

// Workers know the run's folder, for their figures and, where that was asked for, for what they print.
void tell_of_folder(const RunFlags& flags, coordinator::CoordinatedJob& job) {
  const bool logs = flags.logs || flags.prefix;
  if (job.folder.path.empty()) {
    if (logs) throw Error(ErrorKind::kIo, "there is no folder for the logs of the workers", flags.runs);
    return;
  }
  const std::filesystem::path run = std::filesystem::absolute(job.folder.path);
  job.command.environment["MUSTER_RUN"] = run.string();
  if (!logs) return;
  job.command.environment[launch::kLogsVariable] = (run / "log").string();
  job.folder.made = false;  // what a program has printed that failed at once is to be read
}

// Processes of the program that serve in join(), beside its workers.
void add_servers(const RunFlags& flags, coordinator::CoordinatedJob& job) {
  if (flags.servers == 0) {
    if (flags.copies > 1)
      throw Error(ErrorKind::kInvalidInput, fmt::format("--copies {}: there are no parameter servers", flags.copies),
                  {}, "Give their number as well: --servers 2.");
    return;
  }
  if (job.hosts)
    throw Error(ErrorKind::kUnsupported, "--servers: parameter servers of a program are on one host", {},
                "Leave --listen and --hosts away, or train by a job file, whose servers may be on several hosts.");
  if (flags.copies > flags.servers)
    throw Error(ErrorKind::kInvalidInput, fmt::format("--copies {} with --servers {}", flags.copies, flags.servers), {},
                "Copies are on different servers: use as many servers as copies, or more.");
  job.servers = flags.servers;
  job.copies = flags.copies;
  job.command.environment["MUSTER_SERVERS"] = std::to_string(flags.servers);
  job.command.environment["MUSTER_COPIES"] = std::to_string(flags.copies);
  job.server_command = job.command;
  job.server_command.environment["MUSTER_SERVE"] = "1";
}

// A job that another start may bring further: not one that was started with a mistake. (130, 143: it was told to end.)
bool may_start_again(int exit_code) {
  return exit_code != 0 && exit_code != 2 && exit_code != 128 + SIGINT && exit_code != 128 + SIGTERM;
}

// Every start has a run of its own. What a run throws is told as `muster` does it, unless it was the last one.
int run_with_restarts(int restarts, const std::function<int(bool& stopped)>& run_once) {
  bool stopped = false;
  const auto run = [&] { return run_once(stopped); };
  for (int restart = 1; restart <= restarts; ++restart) {
    const int code = exit_code_of(run);
    if (stopped || !may_start_again(code)) return code;
    tell(fmt::format("the job ended with {}; it is started again ({} of {})", code, restart, restarts));
  }
  return run();
}

// Who sees to it that the other hosts come, where they do not come by themselves; fills in what that decides.
std::unique_ptr<Gathering> gather(RunFlags& flags, const launch::Surroundings& surroundings, ProgramJob& program) {
  std::unique_ptr<Gathering> gathering;
  int hosts = surroundings.nodes;
  if (flags.cluster.by_ssh()) {
    auto by_ssh = std::make_unique<SshGathering>(flags.cluster);
    hosts = by_ssh->hosts();
    if (by_ssh->own_workers()) program.workers = {*by_ssh->own_workers(), *by_ssh->own_workers()};
    gathering = std::move(by_ssh);
  } else if (surroundings.several()) {
    gathering = std::make_unique<FirstNode>(surroundings, flags.runs, flags.cluster);
  } else {
    return nullptr;
  }
  if (flags.hosts.empty()) flags.hosts = std::to_string(hosts);
  program.interface = flags.cluster.interface;
  return gathering;
}

}  // namespace

void add_run(CLI::App& app, Outcome& outcome) {
  CLI::App* command =
      app.add_subcommand("run", "Start a LibTorch program as several workers, on this machine and on others.");
  auto flags = std::make_shared<RunFlags>();
  command
      ->add_option("-n,--workers", flags->workers,
                   "Worker processes, on each host: 4, or a range as 1:4 for muster scale")
      ->required();
  command->add_option(
      "--name", flags->job.named,
      "What commands (muster status, stop, logs, ...) know the job by; by itself the program's file name");
  command->add_option("--runs", flags->runs, "Folder for the record of a job that commands can reach")
      ->capture_default_str();
  command
      ->add_option("--liveness", flags->job.liveness_seconds,
                   "Seconds without a sign of life until a worker is replaced")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  command->add_option("--hang", flags->job.hang_seconds, "Seconds in one lane until a worker is taken for hung")
      ->check(CLI::Range(0.5, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--start", flags->job.start_seconds,
                   "Seconds in which a replacement neither computes nor reads nor writes until it is taken for hung")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--threads", flags->job.threads,
                   "Threads of LibTorch and the BLAS in each worker; a session sets its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option(
      "--hosts", flags->hosts,
      fmt::format("Hosts to be reached by ssh, this one among them, as a:4,b:4; or with --listen how many there are: a "
                  "number, or a range as 1:4. None: {}",
                  kHostsByDefault));
  command
      ->add_option("--host-seconds", flags->host_seconds,
                   "Seconds in which nothing is heard of a host until it is given up")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  command->add_flag(
      "--logs", flags->logs,
      "What each worker of this host prints goes into a file of its own in the run's folder (log.txt, log.1.txt, ...), "
      "for muster logs");
  command->add_flag("--prefix", flags->prefix,
                    "As --logs, and each line of this host's workers is printed here with [rank] before it");
  command
      ->add_option("--servers", flags->servers,
                   "Parameter servers: processes of the program beside its workers, for muster::Servers")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--copies", flags->copies, "Of all that the servers hold, each on another one")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--max-restarts", flags->max_restarts,
                   "How often a job that has failed is started again, to go on from the program's own checkpoint")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  add_listen_flags(*command, flags->cluster);
  add_node_flags(*command, flags->cluster);
  // Everything from the program's name on is the program's.
  command->prefix_command();
  command->footer(
      "The program calls muster::join(argc, argv) first; each process then knows its rank and the others.\n"
      "What the workers print is not changed, but by --logs and --prefix: let one of them print. Ctrl-C and SIGTERM "
      "are\n"
      "passed on once to each.\n"
      "\n"
      "With a session (muster::synchronize) a worker that is lost is replaced and the result stays; muster status,\n"
      "scale, stop, logs and attach work as for muster train, by the name of the program or what --name says. A "
      "program\n"
      "that makes a group\n"
      "of its own (worker.group(), all_reduce_gradients) ends with the first worker that is lost: the others get\n"
      "peer_lost, and are ended after 5 s if they do not end by themselves.\n"
      "The exit code is that of the first worker that ended badly.\n"
      "\n"
      "With --listen the agents of other hosts start the same program, which has to be at the same path there, with "
      "the\n"
      "same arguments.\n"
      "\nExamples:\n"
      "  muster run -n 4 ./my_program --epochs 3\n"
      "  muster run -n 4 --prefix ./my_program         every line with the rank of its worker\n"
      "  muster run --workers 1:4 ./my_program         starts 4; muster scale my_program 2\n"
      "  muster run -n 4 --servers 2 ./my_program      two more processes hold parameters (muster::Servers)\n"
      "  muster run -n 2 --listen 127.0.0.1:7400 ./my_program     and on another host: muster agent --join "
      "127.0.0.1:7400");
  command->callback([command, flags, &outcome] {
    const std::vector<std::string> words = command->remaining();
    if (words.empty()) throw Error(ErrorKind::kInvalidInput, "no program to run", {}, "muster run -n 4 ./my_program");
    ProgramJob program = flags->job;
    program.program = words.front();
    program.arguments = {words.begin() + 1, words.end()};
    program.workers = parse_range("--workers", flags->workers, kMostWorkers);
    program.interface = flags->cluster.interface;
    if (names_hosts(flags->hosts)) flags->cluster.hosts = std::exchange(flags->hosts, {});
    const launch::Surroundings surroundings = surroundings_for(flags->cluster);
    if (surroundings.node > 0) {
      outcome.exit_code = run_other_node(surroundings, flags->runs, flags->cluster, std::nullopt);
      return;
    }
    const std::unique_ptr<Gathering> gathering = gather(*flags, surroundings, program);
    // Agents have folders of their own.
    const bool is_path = program.program.find('/') != std::string::npos;
    if (is_path && !flags->cluster.listen.empty())
      program.program = std::filesystem::absolute(program.program).lexically_normal().string();
    if (flags->max_restarts > 0 && (gathering || !flags->cluster.listen.empty()))
      throw Error(
          ErrorKind::kUnsupported, "--max-restarts is for one host", {},
          "On several hosts let what starts the job start it again: Slurm's --requeue, Kubernetes' backoffLimit.");
    const auto run_once = [&](bool& stopped) {
      coordinator::CoordinatedJob job = coordinated_job(program);
      job.hosts = hosts_of(*flags, program);
      add_servers(*flags, job);
      if (!surroundings.launcher.empty()) job.started = launch::to_string(surroundings);
      if (gathering) gathering->prepare(job);
      job.folder = folder_of(flags->runs, job.name);
      tell_of_folder(*flags, job);
      const auto body = [&] {
        const auto ended = [&](bool by_somebody) { stopped = by_somebody; };
        if (!flags->prefix) return supervise_workers(std::move(job), {}, {}, ended);
        WorkerLines lines(job.folder.path, job.most_workers, stdout);
        const int code = supervise_workers(
            std::move(job), {}, [&] { lines.print(); }, ended);
        lines.print(true);
        return code;
      };
      return gathering ? run_gathered(*gathering, body) : body();
    };
    outcome.exit_code = run_with_restarts(flags->max_restarts, run_once);
  });
}

}  // namespace muster::cli
