// muster launch: hands a job to what places processes on a cluster. Slurm gets a batch script, and the job with it;
// Kubernetes' manifests are printed, because who applies them has rights there that Muster need not have.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/memory.h"
#include "muster/base/process_memory.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/command.h"
#include "muster/cli/workers.h"
#include "muster/control/trust_files.h"
#include "muster/launch/child_process.h"
#include "muster/launch/kubernetes_manifests.h"
#include "muster/launch/slurm_script.h"
#include "muster/trainer/job.h"
#include "muster/trainer/job_fit.h"
#include "muster/trainer/job_hosts.h"
#include "muster/trainer/preflight.h"

namespace muster::cli {
namespace {

constexpr int kCheckpointSeconds = 100;  // beside the grace: the step under way, and the nodes' end
constexpr int kPodEnd = 30;              // the same for a pod
constexpr std::chrono::minutes kSubmission{2};
// What a job takes beyond the estimate: figures of docs/memory.md agree within 20 %.
constexpr double kMemoryMargin = 1.25;
constexpr std::uint64_t kUnmeasuredMemory = std::uint64_t{4} << 30;

struct SlurmFlags {
  std::vector<std::string> words;
  std::vector<std::string> assignments;
  int nodes = 2;
  std::optional<int> cores;
  std::string time;
  std::string partition;
  std::optional<int> warning;
  std::vector<std::string> options;
  std::string program;
  bool dry_run = false;
};

struct KubernetesFlags {
  std::string job;
  std::vector<std::string> assignments;
  std::string image;
  std::string name;
  int hosts = 2;
  std::string claim;
  std::string data;
  std::optional<int> cores;
  bool containerfile = false;
};

int cores_of(const trainer::ResolvedJob& resolved) {
  return static_cast<int>(resolved.job.parallel.workers.most * resolved.job.threads);
}

launch::SlurmJob slurm_job(const SlurmFlags& flags) {
  launch::SlurmJob job;
  job.nodes = flags.nodes;
  job.time = flags.time;
  job.partition = flags.partition;
  job.options = flags.options;
  job.command = {flags.program.empty() ? own_program() : flags.program};
  double grace = 30;  // of programs
  if (flags.words.front() == "run") {
    if (!flags.assignments.empty())
      throw Error(ErrorKind::kInvalidInput, "a program has no job file", "--set",
                  "Give its own flags behind its name.");
    job.name = "muster-run";
    job.cores = flags.cores.value_or(1);
  } else {
    std::vector<std::string> assignments = flags.assignments;
    for (std::size_t i = 1; i + 1 < flags.words.size(); ++i)
      if (flags.words[i] == "--set") assignments.push_back(flags.words[i + 1]);
    const trainer::ResolvedJob resolved = trainer::load_job_on(flags.nodes, flags.words.front(), assignments);
    job.name = resolved.job.name;
    job.cores = flags.cores.value_or(cores_of(resolved));
    grace = resolved.job.checkpoint.grace_seconds;
    job.ranks_of_mpi = flags.nodes > 1 && resolved.job.parallel.network == "mpi";
    job.command.emplace_back("train");
  }
  job.warning_seconds = flags.warning.value_or(static_cast<int>(grace) + kCheckpointSeconds);
  job.command.insert(job.command.end(), flags.words.begin(), flags.words.end());
  for (const std::string& assignment : flags.assignments)
    job.command.insert(job.command.end(), {"--set", assignment});
  return job;
}

int submit(const std::string& script) {
  if (!launch::find_program("sbatch"))
    throw Error(ErrorKind::kNotFound, "there is no sbatch on this machine", {},
                "Type it where jobs are submitted from; --dry-run prints the script.");
  const TemporaryFolder folder("muster-sbatch-");
  const std::filesystem::path file = folder.path() / "job.sh";
  write_atomically(file, script);
  launch::ChildProcess process({.program = "sbatch", .arguments = {file.string()}, .environment = {}});
  std::vector<launch::ChildProcess> processes;
  processes.push_back(std::move(process));
  const auto failed = launch::wait_for_all(processes, Deadline::after(kSubmission));
  return failed ? std::max(1, failed->ending.exit_code) : 0;
}

std::uint64_t memory_of(const trainer::ResolvedJob& resolved, std::string& words) {
  try {
    const ProcessMemory before = process_memory();
    const trainer::Datasets sets = trainer::open_data(resolved);
    const trainer::MemoryFigures figures = trainer::measure_memory(resolved, sets, before, usable_memory());
    if (figures.unmeasured.empty()) {
      const std::uint64_t total = trainer::estimate_memory(figures).total();
      words = describe(trainer::estimate_memory(figures), figures.workers);
      return static_cast<std::uint64_t>(static_cast<double>(total) * kMemoryMargin);
    }
    words = fmt::format("not measured: {}", figures.unmeasured);
  } catch (const Error& error) {
    // The data may be where the pods are, and not here.
    words = fmt::format("not measured: {}", error.message());
  }
  return kUnmeasuredMemory;
}

// Paths of the job are those that pods see: only what a claim holds is there.
void warn_of_local_paths(const KubernetesFlags& flags, const trainer::ResolvedJob& resolved) {
  const auto warn = [&](const char* key, const std::string& path) {
    if (path.empty() || (!flags.data.empty() && path.starts_with("/data"))) return;
    tell(
        fmt::format("{} = \"{}\" has to be a path that every pod sees, and pods do not see this machine's files. "
                    "Have it in the image, or in a volume: --data CLAIM is /data there, and --set {}=/data/...",
                    key, path, key));
  };
  warn("data.path", resolved.job.data.path);
  warn("model.script", resolved.job.model.script);
}

void print_manifests(const KubernetesFlags& flags) {
  const trainer::ResolvedJob shared = trainer::load_job_on(flags.hosts, flags.job, flags.assignments);
  if (shared.job.parallel.network == "mpi")
    throw shared.invalid("parallel.network", "no MPI starts the processes of pods", "Remove the key: gloo needs none.");
  const trainer::ResolvedJob resolved = trainer::load_job(flags.job, flags.assignments);
  warn_of_local_paths(flags, resolved);
  launch::KubernetesJob job;
  job.name = flags.name.empty() ? launch::kubernetes_name(resolved.job.name) : flags.name;
  job.image = flags.image;
  job.hosts = flags.hosts;
  job.job = shared.text;
  job.claim = flags.claim;
  job.data = flags.data;
  job.cores = flags.cores.value_or(cores_of(resolved));
  job.grace_seconds = static_cast<int>(resolved.job.checkpoint.grace_seconds) + kPodEnd;
  std::string memory;
  job.memory_bytes = memory_of(resolved, memory);
  const TemporaryFolder folder("muster-trust-");
  control::create_certificates(folder.path() / "certs",
                               {.hosts = {}, .days = 365, .now = std::chrono::system_clock::now()});
  job.coordinator = control::read_certificate_files(folder.path() / "certs" / "coordinator");
  job.agent = control::read_certificate_files(folder.path() / "certs" / "agent");
  fmt::print(
      "# By muster launch kubernetes. It has keys that were made for this job: treat it as a secret.\n"
      "# Memory of a pod: {}.\n"
      "{}{}",
      memory,
      flags.claim.empty() ? "# Runs are in an emptyDir and go with their pod: --claim names a volume that stays.\n"
                          : "",
      launch::kubernetes_manifests(job));
}

void add_slurm(CLI::App& launch, Outcome& outcome) {
  CLI::App* command = launch.add_subcommand("slurm", "Submit a job to Slurm: a task on each node.");
  auto flags = std::make_shared<SlurmFlags>();
  command
      ->add_option("job", flags->words,
                   "The job file, with options before or after it; or after all options --, and then either the job "
                   "file and more for muster train, or run and the words of muster run")
      ->required();
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--nodes,-N", flags->nodes, "Nodes: hosts of the job")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--cores", flags->cores, "For each node. None: workers x threads of the job")
      ->check(CLI::Range(1, 4096));
  command->add_option("--time", flags->time, "As sbatch --time, 1:30:00 for one");
  command->add_option("--partition,-p", flags->partition, "As sbatch --partition");
  command
      ->add_option("--warning", flags->warning,
                   "Seconds before the end in which a checkpoint is written. None: checkpoint.grace_seconds + 100")
      ->check(CLI::Range(1, 86400));
  command
      ->add_option("--sbatch", flags->options, "One more option of sbatch, --sbatch=--account=physics; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--muster", flags->program, "Where this program is on the nodes. None: as here");
  command->add_flag("--dry-run", flags->dry_run, "Print the script, submit nothing");
  command->footer(
      "Before the time limit, and when another job comes first, the job writes a checkpoint, is queued again and goes "
      "on\n"
      "by itself. muster stop and scancel end it for good. Nodes meet in the folder of the runs, which all have to "
      "see.\n"
      "\nExamples:\n"
      "  muster launch slurm job.toml --nodes 4 --time 4:00:00 --partition cpu\n"
      "  muster launch slurm job.toml --nodes 4 --set job.epochs=9 --dry-run\n"
      "  muster launch slurm --nodes 4 -- job.toml --quiet\n"
      "  muster launch slurm --nodes 2 -- run -n 4 ./my_program --epochs 3");
  command->callback([flags, &outcome] {
    const std::string script = launch::slurm_script(slurm_job(*flags));
    if (flags->dry_run)
      fmt::print("{}", script);
    else
      outcome.exit_code = submit(script);
  });
}

void add_kubernetes(CLI::App& launch) {
  CLI::App* command = launch.add_subcommand("kubernetes", "Print the manifests of a job for Kubernetes.");
  auto flags = std::make_shared<KubernetesFlags>();
  CLI::Option* const job = command->add_option("job", flags->job, "The job file");
  command->add_option("--set", flags->assignments, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  CLI::Option* const image = command->add_option("--image", flags->image, "An image with muster in its PATH");
  command->add_option("--hosts", flags->hosts, "Pods")->check(CLI::Range(2, 1024))->capture_default_str();
  command->add_option("--name", flags->name, "Of the objects. None: made of the job's");
  command->add_option("--claim", flags->claim, "A PersistentVolumeClaim (ReadWriteMany) for runs. None: an emptyDir");
  command->add_option("--data", flags->data, "A PersistentVolumeClaim that pods see, read only, as /data");
  command->add_option("--cores", flags->cores, "Of each pod. None: workers x threads of the job")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--containerfile", flags->containerfile,
                    "Print a Containerfile for such an image, and nothing else");
  command->footer(
      "Nothing is sent to a cluster. The manifests have keys in a Secret.\n"
      "\nExamples:\n"
      "  muster launch kubernetes --containerfile > Containerfile\n"
      "  muster launch kubernetes job.toml --image registry/muster --hosts 4 --claim runs | kubectl apply -f -");
  command->callback([flags, job, image] {
    if (flags->containerfile) {
      fmt::print("{}", launch::containerfile());
      return;
    }
    if (job->count() == 0 || image->count() == 0)
      throw Error(ErrorKind::kInvalidInput, "a job file and --image are needed", {},
                  "muster launch kubernetes job.toml --image registry/muster --hosts 4");
    print_manifests(*flags);
  });
}

}  // namespace

void add_launch(CLI::App& app, Outcome& outcome) {
  CLI::App* launch = app.add_subcommand("launch", "Hand a job to Slurm or Kubernetes.");
  launch->require_subcommand(1);
  launch->footer(
      "Examples:\n"
      "  muster launch slurm job.toml --nodes 4 --time 4:00:00\n"
      "  muster launch kubernetes job.toml --image registry/muster --hosts 4 | kubectl apply -f -\n"
      "\nEverything that starts a job on several machines, in one table: docs/launching.md.");
  add_slurm(*launch, outcome);
  add_kubernetes(*launch);
}

}  // namespace muster::cli
