// muster agent: this host's part in a job that another one coordinates. What is trained, and by how many workers, it is
// told when it joins.
#include "muster/cli/agent.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/host_name.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/version.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/program_job.h"
#include "muster/cli/signals.h"
#include "muster/cli/turn_to_lead.h"
#include "muster/cli/workers.h"
#include "muster/control/any_coordinator.h"
#include "muster/control/cluster_client.h"
#include "muster/coordinator/agent.h"
#include "muster/launch/surroundings.h"
#include "muster/trainer/job.h"

namespace muster::cli {
namespace {

constexpr std::chrono::hours kAgentGrace{24};  // a second signal ends it at once; the first has times of its own
constexpr std::chrono::milliseconds kLongestAgentKill{3000};

// The job as this host runs it. The workers find it as a file in `folder`.
coordinator::CoordinatedJob job_here(const AgentFlags& flags, const control::Welcome& welcome,
                                     const TemporaryFolder& folder, std::string& interface) {
  if (!welcome.program.empty()) {
    ProgramJob program = ProgramJob::from_text(welcome.program);
    require_program(program);
    if (flags.workers) program.workers = {*flags.workers, *flags.workers};
    if (interface.empty()) interface = program.interface;
    return coordinated_job(program, flags.runs);
  }
  const std::filesystem::path file = folder.path() / "job.toml";
  write_atomically(file, welcome.job);
  const trainer::ResolvedJob resolved = trainer::load_job(file, {});
  coordinator::CoordinatedJob job = coordinated_job(resolved);
  if (flags.workers) job.least_workers = job.most_workers = *flags.workers;
  if (interface.empty()) interface = resolved.job.parallel.interface;
  job.command.program = own_program();
  job.command.arguments = {"train", file.string()};
  job.command.arguments.insert(job.command.arguments.end(), welcome.arguments.begin(), welcome.arguments.end());
  job.command.environment[kMemoryVariable] = memory_for_workers();
  return job;
}

// As whom it listens in its turn.
ClusterFlags listening(const AgentFlags& flags) {
  if (flags.listen.empty())
    throw Error(ErrorKind::kInvalidInput, "an agent that stands by has to be found in its turn", "--store",
                "Add --listen ADDRESS:PORT of this host, one that the agents are given by --join A,B.");
  ClusterFlags listening;
  listening.listen = flags.listen;
  listening.interface = flags.cluster.interface;
  listening.insecure = flags.cluster.insecure;
  listening.trust.certs = flags.listen_certs;
  return listening;
}

}  // namespace

int run_agent(const AgentFlags& flags) {
  const std::vector<control::ClusterTarget> targets = targets_of(flags.cluster);
  std::vector<std::unique_ptr<control::ClusterCalls>> addresses;
  for (const control::ClusterTarget& target : targets)
    addresses.push_back(std::make_unique<control::ClusterClient>(target));
  control::AnyCoordinator coordinator(std::move(addresses));
  remove_abandoned(kAgentFolderPrefix);
  const TemporaryFolder folder(kAgentFolderPrefix);
  coordinator::AgentOptions options;
  options.card.version = version();
  options.card.name = flags.name.empty() ? host_name() : flags.name;
  options.card.cores = usable_cores(launch::detect_surroundings().cores).usable;
  options.card.most_workers = flags.workers.value_or(options.card.cores);
  options.coordinator = flags.cluster.join;
  options.interface = flags.cluster.interface;
  options.trust = targets.front().trust;
  options.patience =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(flags.wait_seconds));
  options.job = [&](const control::Welcome& welcome, std::string& interface) {
    return job_here(flags, welcome, folder, interface);
  };
  options.together = flags.together;
  std::optional<TurnToLead> turn;  // until the agent has ended
  if (!flags.store.url.empty()) {
    turn.emplace(listening(flags), flags.store);
    options.recorded = [&turn](const std::filesystem::path& run) { turn->begin(run); };
  }
  options.tell = tell;
  const SignalWatch signals(
      kAgentGrace, [](const std::string& signal) { tell(fmt::format("{}: again to stop at once", signal)); },
      kLongestAgentKill);
  coordinator::Audience audience;
  audience.requested_signal = [&signals] { return signals.for_workers(); };
  coordinator::Agent agent(coordinator, std::move(options));
  const int code = agent.run(audience);
  return signals.exit_code() != 0 ? signals.exit_code() : code;
}

void add_agent(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("agent", "Let this host take part in a job that another one has started.");
  auto flags = std::make_shared<AgentFlags>();
  add_join_flags(*command, flags->cluster);
  add_store_flags(*command, flags->store);
  CLI::Option* const listen =
      command->add_option("--listen", flags->listen,
                          "With --store: ADDRESS:PORT at which this host listens when it coordinates in its turn");
  command
      ->add_option("--listen-certs", flags->listen_certs,
                   "With --listen: the coordinator's folder of muster certs create")
      ->needs(listen);
  command->add_option("--workers", flags->workers, "Workers on this host; over parallel.workers and muster run -n")
      ->check(CLI::Range(1, 64));
  command->add_option("--name", flags->name, "What this host is called in muster status. None: its host name");
  command
      ->add_option("--runs", flags->runs,
                   "Folder for the record of a program (muster run) that commands can reach; job files name their own")
      ->capture_default_str();
  command->add_option("--wait", flags->wait_seconds, "Seconds to wait for a coordinator that is not there yet")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->footer(
      "One agent a host. It is told the job, starts this host's workers and replaces those that are lost. Data and\n"
      "models that the job names have to be where the job says, on every host; with data.access = \"fetch\" or "
      "\"copy\"\n"
      "packed shards may be on some of them only.\n"
      "muster status, scale, stop, set and logs work here as on the first host; set not for programs of muster run.\n"
      "The program of muster run has to be there, too; it is started in the folder that the agent is started in.\n"
      "Ctrl-C or SIGTERM leaves the job, which goes on with the other hosts; a second one ends everything at once.\n"
      "--join takes several addresses, joined by commas: where another coordinator may take over (muster attach).\n"
      "With --store this agent stands by: when the etcd says that nobody coordinates the job, it does, with its "
      "workers.\n"
      "Without a coordinator the workers go on for parallel.orphan_seconds; then they end, and so does the agent.\n"
      "The exit code is 0 when the job has finished, 143 when it was stopped, 1 when it has failed, 130 or 143 after "
      "a\n"
      "signal.\n"
      "\nExamples:\n"
      "  muster train job.toml --listen 127.0.0.1:7400       on one host, with parallel.hosts = 2\n"
      "  muster agent --join 127.0.0.1:7400                  on the other (here: the same)\n"
      "  muster agent --join 10.0.0.1:7400 --certs agent --interface eth1 --workers 8\n"
      "  muster agent --join 10.0.0.1:7400,10.0.0.2:7400 --certs agent --store etcd://10.0.0.7:2379 --store-ca ca.crt\n"
      "               --listen 10.0.0.2:7400 --listen-certs coordinator");
  command->callback([flags, &outcome] { outcome.exit_code = run_agent(*flags); });
}

}  // namespace muster::cli
