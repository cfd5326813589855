// muster attach: this process becomes the coordinator of a job whose own was killed. All of it is in take_over.h; only
// the flags are here.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/cli/cluster_flags.h"
#include "muster/cli/command.h"
#include "muster/cli/runs.h"
#include "muster/cli/store_flags.h"
#include "muster/cli/take_over.h"
#include "muster/strategies/registry.h"
#include "muster/strategies/strategy_traits.h"

namespace muster::cli {
namespace {

struct AttachFlags {
  std::string job;
  std::string runs = "runs";
  ClusterFlags cluster;
  StoreFlags store;
};

}  // namespace

void add_attach(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("attach", "Take over a job whose coordinator was killed.");
  auto flags = std::make_shared<AttachFlags>();
  command->add_option("job", flags->job, "A run's folder, its name, or the beginning of it")->required();
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  add_listen_flags(*command, flags->cluster);
  add_store_flags(*command, flags->store);
  command->footer(
      fmt::format("Workers of {}, and servers, outlive the process that started them.\n",
                  strategies::strategies_with(&strategies::Traits::replaces_workers)) +
      "They go on training for parallel.orphan_seconds, write a checkpoint then and end. Until then this command,\n"
      "or muster train --resume, watches and replaces them again; what was asked of the coordinator before (scale,\n"
      "stop, set) still holds. It ends with the job, with the job's exit code; Ctrl-C stops the job after a\n"
      "checkpoint.\n"
      "Of a job of several hosts it listens where the coordinator did (--insecure is to be typed again); the agents\n"
      "find it by themselves, and keep their workers. If the coordinator's host is lost, type it on another host of "
      "the\n"
      "job, with --listen and an address that the agents were given (muster agent --join A,B): it coordinates in the\n"
      "place of that host's agent. With --store a standby does all that by itself: muster coordinator --standby.\n"
      "\nExamples:\n"
      "  muster attach fashion\n"
      "  muster attach far --insecure\n"
      "  muster attach far --listen 10.0.0.2:7400 --insecure");
  command->callback([flags, &outcome] {
    outcome.exit_code = take_over_workers(find_run(flags->job, flags->runs), flags->cluster, etcd_by(flags->store));
  });
}

}  // namespace muster::cli
