// muster run: N processes of a user's program as the workers of one job.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/config.h"
#include "muster/base/error.h"
#include "muster/cli/command.h"
#include "muster/cli/workers.h"
#include "muster/trainer/run_folder.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kGrace{30};
constexpr std::int64_t kMostWorkers = 64;

struct RunFlags {
  std::string workers;
  std::string runs = "runs";
  double liveness_seconds = 2;
  double hang_seconds = 10;
  double start_seconds = 600;
  int threads = 1;
};

IntegerRange parse_workers(const std::string& text) {
  // One number is a range too.
  const bool number = text.find(':') == std::string::npos;
  const std::optional<IntegerRange> range = parse_integer_range(number ? text + ":" + text : text);
  if (!range || range->least < 1 || range->most < range->least || range->most > kMostWorkers)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("--workers {}: it takes a number from 1 to {}, or a range of them", text, kMostWorkers), {},
                "muster run --workers 4 ./my_program, or --workers 1:4");
  return *range;
}

// A name that can be a folder's.
std::string job_name(const std::string& program) {
  std::string name = std::filesystem::path(program).filename().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
  return name;
}

}  // namespace

void add_run(CLI::App& app, Outcome& outcome) {
  CLI::App* command = app.add_subcommand("run", "Start a LibTorch program as several workers on this machine.");
  auto flags = std::make_shared<RunFlags>();
  command->add_option("-n,--workers", flags->workers, "Worker processes: 4, or a range as 1:4 for muster scale")
      ->required();
  command->add_option("--runs", flags->runs, "Folder for the record of a job that commands can reach")
      ->capture_default_str();
  command
      ->add_option("--liveness", flags->liveness_seconds, "Seconds without a sign of life until a worker is replaced")
      ->check(CLI::Range(0.5, 3600.0))
      ->capture_default_str();
  command->add_option("--hang", flags->hang_seconds, "Seconds in one lane until a worker is taken for hung")
      ->check(CLI::Range(0.5, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--start", flags->start_seconds,
                   "Seconds in which a replacement neither computes nor reads nor writes until it is taken for hung")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command
      ->add_option("--threads", flags->threads,
                   "Threads of LibTorch and the BLAS in each worker; a session sets its own")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  // Everything from the program's name on is the program's.
  command->prefix_command();
  command->footer(
      "The program calls muster::join(argc, argv) first; each process then knows its rank and the others.\n"
      "What the workers print is not changed: let one of them print. Ctrl-C and SIGTERM are passed on once to each.\n"
      "\n"
      "With a session (muster::synchronize) a worker that is lost is replaced and the result stays; muster status,\n"
      "scale, stop, logs and attach work as for muster train, by the name of the program. A program that makes a "
      "group\n"
      "of its own (worker.group(), all_reduce_gradients) ends with the first worker that is lost: the others get\n"
      "peer_lost, and are ended after 5 s if they do not end by themselves.\n"
      "The exit code is that of the first worker that ended badly.\n"
      "\nExamples:\n"
      "  muster run -n 4 ./my_program --epochs 3\n"
      "  muster run --workers 1:4 ./my_program         starts 4; muster scale my_program 2");
  command->callback([command, flags, &outcome] {
    const std::vector<std::string> words = command->remaining();
    if (words.empty()) throw Error(ErrorKind::kInvalidInput, "no program to run", {}, "muster run -n 4 ./my_program");
    const IntegerRange workers = parse_workers(flags->workers);
    SupervisedJob job;
    job.name = job_name(words.front());
    job.least_workers = static_cast<int>(workers.least);
    job.most_workers = static_cast<int>(workers.most);
    job.grace = kGrace;
    job.liveness = std::chrono::duration<double>(flags->liveness_seconds);
    job.hang = std::chrono::duration<double>(flags->hang_seconds);
    job.start = std::chrono::duration<double>(flags->start_seconds);
    job.make_run = [runs = flags->runs, name = job.name] { return trainer::RunFolder::make(runs, name).string(); };
    const std::vector<std::string> arguments(words.begin() + 1, words.end());
    outcome.exit_code =
        supervise_workers({words.front(), arguments, {{"MUSTER_THREADS", fmt::format("{}", flags->threads)}}}, job);
  });
}

}  // namespace muster::cli
