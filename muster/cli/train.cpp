// muster train: a job file to a trained model.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/cli/command.h"
#include "muster/cli/progress.h"
#include "muster/cli/signals.h"
#include "muster/trainer/trainer.h"

namespace muster::cli {
namespace {

struct TrainFlags {
  std::string job;
  std::vector<std::string> assignments;
  bool resume = false;
  std::string run;
  bool quiet = false;
  bool json = false;
};

std::string resume_command(const TrainFlags& flags, const std::string& run) {
  std::string command = "muster train " + flags.job;
  for (const std::string& assignment : flags.assignments)
    command += fmt::format(" --set '{}'", assignment);
  return command + " --resume --run " + run;
}

void run_train(const TrainFlags& flags, Outcome& outcome) {
  const trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  ProgressView view(style_for_output(flags.quiet, flags.json), stdout, stderr, terminal_width());
  SignalWatch signals(std::chrono::duration<double>(resolved.job.checkpoint.grace_seconds),
                      [&view](const std::string& message) { view.warned(message); });
  Log log(LogLevel::kOff);  // people are told by the view; the run's log file gets everything
  trainer::TrainingOptions options;
  options.resume = flags.resume || !flags.run.empty();
  options.run = flags.run;
  options.stop_requested = [&signals] { return signals.stop_requested(); };
  const trainer::TrainingResult result = trainer::train(resolved, options, view, log);
  view.finished(result, resume_command(flags, result.run.string()));
  if (result.end == trainer::TrainingResult::End::kInterrupted) outcome.exit_code = signals.exit_code();
}

}  // namespace

void add_train(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a job file describes.");
  auto flags = std::make_shared<TrainFlags>();
  command->add_option("job", flags->job, "The job file (TOML); its keys: docs/job-file.md")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--resume", flags->resume, "Go on from the newest whole checkpoint of the job's newest run");
  command->add_option("--run", flags->run, "With --resume: the folder of the run to go on with");
  command->add_flag("--quiet,-q", flags->quiet, "No progress; warnings and errors only");
  command->add_flag("--json", flags->json, "One JSON object a line instead of text");
  command->footer(
      "Everything about a run is in runs/NAME-TIME: job.toml (with every default), metrics.jsonl, log.txt, "
      "checkpoints/.\n"
      "Ctrl-C or SIGTERM finishes the step, writes a checkpoint and exits with 130 or 143; a second one stops at "
      "once.\n"
      "\nExamples:\n"
      "  muster train examples/fashion.toml\n"
      "  muster train job.toml --set optimizer.lr=0.05 --set job.epochs=3\n"
      "  muster train job.toml --resume\n"
      "  muster train job.toml --json | jq .accuracy");
  command->callback([flags, &outcome] { run_train(*flags, outcome); });
}

}  // namespace muster::cli
