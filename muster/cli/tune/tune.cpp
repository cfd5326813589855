// muster tune: a study file to the best model. Trials are copies of this process, so nothing computes here.
// What computes (the estimate of memory) does so in a copy, too.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/deadline.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/memory.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/signals.h"
#include "muster/cli/tune.h"
#include "muster/cli/tune/ask_tell.h"
#include "muster/cli/tune/job_subject.h"
#include "muster/cli/tune/process_trials.h"
#include "muster/cli/tune/program_subject.h"
#include "muster/cli/tune/show.h"
#include "muster/cli/tune/slots.h"
#include "muster/cli/tune/study_place.h"
#include "muster/cli/tune/study_view.h"
#include "muster/control/write_ahead.h"
#include "muster/launch/environment.h"
#include "muster/tuning/tuner.h"

namespace muster::cli {
namespace {

// For trials to write their checkpoints after Ctrl-C; theirs is shorter.
constexpr std::chrono::seconds kTrialsGrace{120};
constexpr std::chrono::seconds kPreflight{600};

struct TuneFlags {
  std::string study;
  bool resume = false;
  std::optional<std::int64_t> parallel;
  std::optional<std::uint64_t> trials;
  bool quiet = false;
  bool json = false;
  bool reference = false;
};

constexpr const char* kStudyReferenceHead =
    "# The study file\n\n"
    "A study file is TOML. `[search]` and `[schedule]` have the keys of the one that their `name` says; `[space]` and\n"
    "`[[points]]` are in docs/tuning.md.\n\n";

// What `muster check --memory` says of the job with its largest values, asked in a copy of this process, because
// measuring computes. Nothing if it cannot be told.
std::optional<std::uint64_t> memory_of(const std::filesystem::path& job, const std::vector<std::string>& settings,
                                       const RunCommand& run) {
  const TemporaryFolder folder("muster-tune-");
  const std::string out = (folder.path() / "check.json").string();
  std::vector<std::string> words{"check", job.string(), "--memory", "--json"};
  for (const std::string& setting : settings)
    words.insert(words.end(), {"--set", setting});
  launch::Command command;
  command.copy = [&] {
    const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (file >= 0) ::dup2(file, STDOUT_FILENO);
    if (nothing >= 0) ::dup2(nothing, STDERR_FILENO);
    return run(words);
  };
  std::vector<launch::ChildProcess> children;
  children.emplace_back(command);
  if (launch::wait_for_all(children, Deadline::after(kPreflight))) return std::nullopt;
  const std::string text = read_text(out, 1 << 20);
  const Json row = parse_json(text.substr(0, text.find('\n')), out);
  if (!row.contains("memory") || !row["memory"].contains("total")) return std::nullopt;
  return row["memory"]["total"].get<std::uint64_t>();
}

// Who chooses by the test set has none left to tell how good the choice is.
void warn_of_test_set(const tuning::StudyFile& file) {
  const trainer::Job job = trainer::load_job(job_of(file), assignments_of(largest_values(file.space))).job;
  if (job.data.validation > 0 || !job.data.validation_path.empty()) return;
  fmt::print(stderr,
             "muster: the job has no validation samples, so trials are compared on the test set; set data.validation = "
             "0.1, for example\n");
}

TrialNeeds needs_of(const tuning::StudyFile& file, const tuning::StudyPlan& plan, std::vector<std::string>& settings,
                    const RunCommand& run) {
  TrialNeeds needs;
  if (file.job.empty()) {
    needs.workers = file.trials.workers.value_or(1);
    needs.threads = file.trials.threads;
    return needs;
  }
  if (file.trials.workers) settings.push_back(fmt::format("parallel.workers={}", *file.trials.workers));
  std::vector<std::string> largest = settings;
  for (std::string& word : assignments_of(largest_values(file.space)))
    largest.push_back(std::move(word));
  const trainer::ResolvedJob resolved = trainer::load_job(job_of(file), largest);
  needs.workers = resolved.job.parallel.workers.most;
  needs.threads = resolved.job.threads;
  // Who is copied may have gone on since: its checkpoints stay until nobody can ask for them any more.
  if (plan.scheduler.make(plan.schedule_problem())->changes_values())
    settings.push_back(fmt::format("checkpoint.keep={}", std::max(resolved.job.checkpoint.keep, resolved.job.epochs)));
  needs.bytes = memory_of(job_of(file), largest, run);
  return needs;
}

std::unique_ptr<TrialSubject> subject_of(const tuning::StudyFile& file, const tuning::StudyPlan& plan,
                                         const std::filesystem::path& folder,
                                         const std::vector<std::string>& settings) {
  if (!file.job.empty())
    return std::make_unique<JobSubject>(folder, job_of(file), file.name, plan.objectives, settings);
  auto subject = std::make_unique<ProgramSubject>(folder, file.program, plan.objectives,
                                                  static_cast<std::uint64_t>(file.trials.workers.value_or(1)),
                                                  static_cast<std::uint64_t>(file.trials.threads), plan.max_resource);
  const auto scheduler = plan.scheduler.make(plan.schedule_problem());
  if (scheduler->changes_values())
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the scheduler {} copies trials, and the state of a program cannot be copied",
                            plan.scheduler.name()),
                file.path, "Use another [schedule], or muster tune ask and tell, which say what is to be copied.");
  if (!subject->can_pause() && scheduler->next_decision(tuning::Trial{}) < plan.max_resource)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("the scheduler {} pauses trials, and the program is not told until when to train",
                            plan.scheduler.name()),
                file.path, "Give study.program an argument with {until}, or remove [schedule].");
  return subject;
}

// Results of earlier studies that are no values of this one's space are of no use, and who named them is told.
void tell_of_strangers(const tuning::StudyPlan& plan) {
  const auto strangers = std::ranges::count_if(
      plan.known, [&](const tuning::Known& known) { return !plan.space.fit(known.values).has_value(); });
  if (strangers > 0)
    fmt::print(stderr,
               "muster: {} of the {} results in study.warm_start have values outside of [space] and are left out\n",
               strangers, plan.known.size());
}

// Somebody else may hold the store: the tuner waits as long as it would later on.
tuning::StudyLog open_log(const std::filesystem::path& folder, const tuning::StudyPlan& plan) {
  const Deadline deadline = Deadline::after(tuning::TunerOptions{}.patience);
  for (bool told = false;; told = true) {
    try {
      return tuning::StudyLog(control::make_write_ahead_store(store_of(folder)), plan);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout || deadline.passed()) throw;
      if (!told) fmt::print(stderr, "muster: waits for the study's store: {}\n", error.what());
    }
  }
}

void refuse_nested(const launch::World& world) {
  if (world.launcher.empty()) return;
  throw Error(ErrorKind::kUnsupported, fmt::format("{} started muster tune", world.launcher), {},
              "Start it once: it starts the processes of its trials by itself.");
}

bool nothing_came_of(const tuning::History& history) {
  for (std::uint64_t number = 0; number < history.size(); ++number) {
    if (history.at(number).state != tuning::State::kFailed) return false;
  }
  return history.size() > 0;
}

void run_tune(const TuneFlags& flags, const RunCommand& run, Outcome& outcome) {
  refuse_nested(launch::detect_world());
  if (!std::filesystem::is_regular_file(flags.study))
    throw Error(ErrorKind::kNotFound, "there is no such study file", flags.study,
                "A study is begun, and gone on with, by its file: muster tune STUDY.toml --resume.");
  tuning::StudyFile file = tuning::read_study_file(flags.study);
  if (flags.trials) file.budget.trials = static_cast<std::int64_t>(*flags.trials);
  if (file.job.empty() && file.program.empty())
    throw Error(ErrorKind::kInvalidInput, "the study names neither a job file nor a program", flags.study,
                "For example: job = \"fashion.toml\" below [study]. muster tune ask and tell need none.");
  const tuning::StudyPlan plan = plan_of(file);
  const std::filesystem::path folder = folder_of(file);
  const bool there = is_study(folder);
  if (there && !flags.resume)
    throw Error(ErrorKind::kInvalidInput, "this study has been begun already", folder.string(),
                "--resume goes on with it, beside others that work on it too; or give study.name another value.");
  if (!file.job.empty() && !flags.quiet) warn_of_test_set(file);
  if (!flags.quiet) tell_of_strangers(plan);
  std::vector<std::string> settings;
  const TrialNeeds needs = needs_of(file, plan, settings, run);
  const auto subject = subject_of(file, plan, folder, settings);
  std::optional<std::int64_t> asked = flags.parallel;
  if (!asked && file.trials.parallel && !file.trials.parallel->automatic) asked = file.trials.parallel->value;
  const Slots slots =
      decide_slots(needs, usable_cores(launch::granted_cores()).usable, usable_memory().usable_bytes, asked);
  if (!there) make_study(folder, file);
  tuning::StudyLog log = open_log(folder, plan);
  ProcessTrials executor(*subject, log, run, file.keep == "all", folder, file.where("[study] objective"));
  StudyView view(style_for_output(flags.quiet, flags.json), log, slots.count, stdout, terminal_width);
  SignalWatch signals(kTrialsGrace, [](const std::string& what) {
    fmt::print(stderr, "muster: {}: trials write a checkpoint and end; once more ends at once\n", what);
  });
  if (!flags.quiet && !flags.json)
    fmt::print("{}: {} at once ({}); {}\n", file.name, slots.count, slots.reason, folder.string());
  tuning::TunerOptions options;
  options.slots = slots.count;
  options.stop_requested = [&] { return signals.stop_requested(); };
  tuning::Tuner tuner(log, executor, view, options);
  const tuning::TunerResult result = tuner.run();
  view.finished(result, folder.string(), fmt::format("muster tune {} --resume", flags.study));
  if (result.interrupted) {
    outcome.exit_code = signals.exit_code();
  } else if (nothing_came_of(log.history())) {
    throw Error(ErrorKind::kCompute, "every trial has failed", folder.string(),
                fmt::format("muster tune show {} says why, trial by trial.", file.name));
  }
}

}  // namespace

void add_tune(CLI::App& app, const RunCommand& run, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("tune", "Search the values of a job's keys that train the best model.");
  auto flags = std::make_shared<TuneFlags>();
  command->add_option("study", flags->study, "The study file (TOML); its keys: docs/tuning.md");
  command->add_flag("--resume", flags->resume, "Go on with the study, after a stop or beside other processes");
  command->add_option("--parallel", flags->parallel, "Trials at once, over what the file says")
      ->check(CLI::Range(1, 1024));
  command->add_option("--trials", flags->trials, "budget.trials, over what the file says")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000}));
  command->add_flag("--quiet,-q", flags->quiet, "No progress; warnings and errors only");
  command->add_flag("--json", flags->json, "One JSON object a line instead of text");
  command->add_flag("--reference", flags->reference, "Print every key of a study file, as Markdown");
  command->require_subcommand(0, 1);
  command->footer(
      "A study is kept in studies/NAME: study.db (survives kill -9), trials/NUMBER (a run each) and best, the run of "
      "the best.\n"
      "Ctrl-C lets trials write a checkpoint and exits with 130; --resume goes on, and proposes what it would have.\n"
      "Several processes may work on one study: start the others with --resume.\n"
      "\nExamples:\n"
      "  muster tune examples/study.toml\n"
      "  muster tune study.toml --resume --trials 100       more trials of the same study\n"
      "  muster tune show fashion                           table of all trials, best first\n"
      "  muster tune show fashion --html report.html        plots in a page that needs no network\n"
      "  muster tune ask study.toml                         a trial for a program of your own\n"
      "  muster tune tell study.toml 0 0.31                 and what came of it\n"
      "  muster evaluate studies/fashion/best");
  add_tune_show(*command);
  add_ask_tell(*command);
  command->callback([command, flags, run, &outcome] {
    if (!command->get_subcommands().empty()) return;
    if (flags->reference) {
      const std::string page = tuning::study_file_reference();
      fmt::print("{}{}", kStudyReferenceHead, page.substr(0, page.size() - 1));
      return;
    }
    if (flags->study.empty())
      throw Error(ErrorKind::kInvalidInput, "no study file", {}, "muster tune examples/study.toml");
    run_tune(*flags, run, outcome);
  });
}

}  // namespace muster::cli
