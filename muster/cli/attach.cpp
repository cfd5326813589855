// muster attach: this process becomes the coordinator of a job whose own was killed.
#include <memory>
#include <string>

#include "muster/cli/command.h"
#include "muster/cli/runs.h"
#include "muster/cli/workers.h"

namespace muster::cli {
namespace {

struct AttachFlags {
  std::string job;
  std::string runs = "runs";
};

}  // namespace

void add_attach(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("attach", "Take over a job whose coordinator was killed.");
  auto flags = std::make_shared<AttachFlags>();
  command->add_option("job", flags->job, "A run's folder, its name, or the beginning of it")->required();
  command->add_option("--runs", flags->runs, "Folder that holds the runs")->capture_default_str();
  command->footer(
      "Workers of shared_sync and parameter_server, and its servers, outlive the process that started them. They\n"
      "go on training for parallel.orphan_seconds, write a checkpoint then and end. Until then this command, or\n"
      "muster train --resume, watches and replaces them again; what was asked of the coordinator before (scale,\n"
      "stop, set) still holds. It ends with the job, with the job's exit code; Ctrl-C stops the job after a\n"
      "checkpoint.\n"
      "\nExamples:\n"
      "  muster attach fashion");
  command->callback([flags, &outcome] { outcome.exit_code = take_over_workers(find_run(flags->job, flags->runs)); });
}

}  // namespace muster::cli
