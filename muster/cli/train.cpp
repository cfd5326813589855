// muster train: a job file to a trained model.
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
#include "muster/cli/command.h"
#include "muster/cli/progress.h"
#include "muster/cli/runs.h"
#include "muster/cli/signals.h"
#include "muster/cli/workers.h"
#include "muster/launch/environment.h"
#include "muster/trainer/run_folder.h"
#include "muster/trainer/trainer.h"
#include "muster/trainer/worker.h"

namespace muster::cli {
namespace {

struct TrainFlags {
  std::string job;
  std::vector<std::string> assignments;
  bool resume = false;
  std::string run;
  bool quiet = false;
  bool json = false;
  double verify = 0;
  bool ignore_memory = false;
};

std::string resume_command(const TrainFlags& flags, const std::string& run) {
  std::string command = "muster train " + flags.job;
  for (const std::string& assignment : flags.assignments)
    command += fmt::format(" --set '{}'", assignment);
  return command + " --resume --run " + run;
}

// What the host has left before the job takes anything: workers are told by the process that starts them, because when
// they look they have taken some of it already. "BYTES REASON".
constexpr const char* kMemoryVariable = "MUSTER_MEMORY";

std::optional<Memory> usable_before(const launch::World& world) {
  if (world.launcher != "muster") return usable_memory();
  const char* const told = std::getenv(kMemoryVariable);
  if (told == nullptr) return std::nullopt;
  std::istringstream words(told);
  Memory memory;
  if (!(words >> memory.usable_bytes)) return std::nullopt;
  std::getline(words >> std::ws, memory.reason);
  return memory;
}

// This process as one of the job's workers, or the only one.
void run_worker(const TrainFlags& flags, const trainer::ResolvedJob& resolved, const launch::World& world,
                Outcome& outcome) {
  // Only the view of the worker that leads is told anything.
  ProgressView view(style_for_output(flags.quiet, flags.json), stdout, stderr, terminal_width());
  SignalWatch signals(std::chrono::duration<double>(resolved.job.checkpoint.grace_seconds),
                      [&](const std::string& message) {
                        if (view.active()) view.warned(message);
                      });
  // Whoever reads what this process prints may be gone before the job ends.
  if (!world.arena.empty()) std::signal(SIGPIPE, SIG_IGN);
  Log log(LogLevel::kOff);  // people are told by the view; the run's log file gets everything
  trainer::TrainingOptions options;
  options.resume = flags.resume || !flags.run.empty();
  options.run = flags.run;
  if (world.arena.empty())
    options.group = trainer::connect_worker(world).group();
  else
    options.supervised = trainer::supervised_worker(world);
  options.verify_rate = flags.verify;
  if (!flags.ignore_memory) options.usable_memory = usable_before(world);
  options.stop_requested = [&signals] { return signals.stop_requested(); };
  const trainer::TrainingResult result = trainer::train(resolved, options, view, log);
  if (result.leads) view.finished(result, resume_command(flags, result.run.string()));
  if (result.end == trainer::TrainingResult::End::kInterrupted) outcome.exit_code = signals.exit_code();
  if (result.end != trainer::TrainingResult::End::kAbandoned) return;
  outcome.exit_code = 1;
  // Who made it cannot remove it any more.
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(world.store).parent_path(), ignored);
}

// This process as the parent of the job's workers, which are this same program with the same arguments.
void run_workers(const trainer::ResolvedJob& resolved, const std::vector<std::string>& arguments, Outcome& outcome) {
  const Memory memory = usable_memory();
  const launch::Command command{
      own_program(), arguments, {{kMemoryVariable, fmt::format("{} {}", memory.usable_bytes, memory.reason)}}};
  const auto workers = static_cast<int>(resolved.job.parallel.workers.most);
  const std::chrono::duration<double> grace(resolved.job.checkpoint.grace_seconds);
  // Where the state outlives a worker it can be replaced; elsewhere the job ends with it.
  const std::string& strategy = resolved.job.parallel.strategy;
  if (strategy != "shared_sync" && strategy != "parameter_server") {
    outcome.exit_code = watch_workers(command, workers, grace);
    return;
  }
  outcome.exit_code = supervise_workers(command, supervised_job(resolved));
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
  const launch::World world = launch::detect_world();
  if (world.size > 1 && world.launcher != "muster")
    throw Error(ErrorKind::kUnsupported,
                fmt::format("{} started {} processes of muster train", world.launcher, world.size), {},
                "Start it once: muster train starts parallel.workers processes by itself.");
  if (world.launcher != "muster") {
    if (const auto run = living_run(flags, resolved.job)) {
      outcome.exit_code = take_over_workers(*run);
      return;
    }
  }
  const auto& parallel = resolved.job.parallel;
  const bool alone = parallel.workers.most == 1 && (parallel.strategy != "parameter_server" || parallel.servers == 0);
  if (world.launcher == "muster" || alone)
    run_worker(flags, resolved, world, outcome);
  else
    run_workers(resolved, arguments, outcome);
}

}  // namespace

void add_train(CLI::App& app, const std::vector<std::string>& arguments, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("train", "Train the model that a job file describes.");
  auto flags = std::make_shared<TrainFlags>();
  command->add_option("job", flags->job, "The job file (TOML); its keys: docs/job-file.md")->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--resume", flags->resume, "Go on from the newest whole checkpoint of the job's newest run");
  command->add_option("--run", flags->run, "With --resume: the folder of the run to go on with");
  command->add_flag("--quiet,-q", flags->quiet, "No progress; warnings and errors only");
  command->add_flag("--json", flags->json, "One JSON object a line instead of text");
  command
      ->add_option("--verify", flags->verify,
                   "Compute this share of all lanes once more, on another worker, and compare every bit")
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--ignore-memory", flags->ignore_memory,
                    "Start a job even if it seems to need more memory than this host has");
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
      "  muster train job.toml --json | jq .accuracy");
  command->callback([flags, arguments, &outcome] { run_train(*flags, arguments, outcome); });
}

}  // namespace muster::cli
