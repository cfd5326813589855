// muster coordinator: a process that coordinates a job and does nothing else. Today that is a standby, which waits for
// its turn (take_over.h); the coordinator that begins a job is muster train.
#include <memory>
#include <string>

#include "muster/base/error.h"
#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/store_flags.h"
#include "muster/cli/take_over.h"
#include "muster/control/job_json.h"

namespace muster::cli {
namespace {

struct CoordinatorFlags {
  std::string job;
  std::string runs = "runs";
  bool standby = false;
  std::string turn;  // the lease of whoever led before, by which an agent says that it has become this program
  double wait_seconds = 60;
  ClusterFlags cluster;
  StoreFlags store;
};

int run_coordinator(const CoordinatorFlags& flags) {
  if (!flags.standby)
    throw Error(ErrorKind::kInvalidInput, "a job is begun by muster train, which coordinates it", {},
                "Add --standby to take over when that one is lost.");
  const auto etcd = etcd_by(flags.store);
  if (!etcd)
    throw Error(ErrorKind::kInvalidInput, "a standby needs --store: only an etcd knows for certain who leads", {},
                "Give the --store that muster train was given. Without one muster attach takes over by hand.");
  if (!flags.turn.empty())
    return take_turn(flags.job, flags.cluster, *etcd, control::lease_from(parse_json(flags.turn, "--turn"), "--turn"));
  return stand_by_for(flags.job, flags.runs, flags.cluster, *etcd, std::chrono::duration<double>(flags.wait_seconds));
}

}  // namespace

void add_coordinator(CLI::App& app, Outcome& outcome) {
  CLI::App* command =
      app.add_subcommand("coordinator", "Stand by for a job, and take over when its coordinator is lost.");
  auto flags = std::make_shared<CoordinatorFlags>();
  command->add_option("job", flags->job, "A run's folder, its name, or the beginning of it")->required();
  command->add_flag("--standby", flags->standby, "Wait until nobody coordinates the job; then do");
  command->add_option("--turn", flags->turn)->group("");
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->add_option("--wait", flags->wait_seconds, "Seconds to wait for a run of that name to begin")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  add_store_flags(*command, flags->store);
  add_listen_flags(*command, flags->cluster);
  command->footer(
      "For jobs that were started with --store. The coordinator has a lease there, which it prolongs; when it was not\n"
      "heard of for --store-lease seconds nobody leads, and one of those that stand by takes over as muster attach\n"
      "does, with the workers of its own host. Workers train on meanwhile, and what was asked of the coordinator "
      "before\n"
      "(scale, stop, set) holds. A coordinator that was only cut off loses the lead, and ends.\n"
      "Stand by on hosts of the job: the coordinator's own, or one with an agent, with --listen and an address that\n"
      "the agents were given (muster agent --join A,B). It ends with the job; with 0 if that ends before its turn.\n"
      "\nExamples:\n"
      "  muster coordinator --standby fashion --store etcd://127.0.0.1:2379\n"
      "  muster coordinator --standby far --store etcd://10.0.0.7:2379,10.0.0.8:2379,10.0.0.9:2379 --store-ca ca.crt\n"
      "                     --listen 10.0.0.2:7400 --certs coordinator");
  command->callback([flags, &outcome] { outcome.exit_code = run_coordinator(*flags); });
}

}  // namespace muster::cli
