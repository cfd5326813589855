// muster bench memory: what `muster check --memory` says a job takes, and what the same job takes when it is trained.
// Peak is the largest sum, over the job's processes, of what each has for itself and its share of what they share
// (PSS), looked at every few milliseconds. Pages of libraries are counted once for the job and in full: with their PSS
// the figure would depend on who else on this host runs a program that uses LibTorch.
#include "muster/cli/bench/memory.h"

#include <fcntl.h>

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/files.h"
#include "muster/base/process_memory.h"
#include "muster/base/temporary_folder.h"
#include "muster/base/text.h"
#include "muster/cli/bench/bench.h"
#include "muster/cli/workers.h"
#include "muster/launch/child_process.h"

namespace muster::cli {
namespace {

constexpr std::chrono::milliseconds kSampleInterval{3};
constexpr std::chrono::minutes kJobTimeout{20};

struct MemoryJob {
  const char* model;
  const char* text;  // of the job file, without its name
};

// A few steps and an evaluation each, with lanes that are large enough for activations to count.
constexpr MemoryJob kJobs[] = {
    {"mlp", "steps = 6\nlanes = 2\n[data]\nsource = \"synthetic\"\nbatch = 256\nsamples = 2000\n"},
    {"cnn", "steps = 4\nlanes = 2\n[data]\nsource = \"synthetic\"\nbatch = 2048\nsamples = 8192\n"},
    {"resnet18",
     "steps = 2\nlanes = 2\n[data]\nsource = \"synthetic\"\nshape = [3, 64, 64]\nbatch = 128\nsamples = 500\n"
     "test_samples = 250\n"},
    {"transformer",
     "steps = 2\nlanes = 2\n[data]\nsource = \"text\"\npath = \"text.txt\"\nwindow = 64\nbatch = 64\n[loss]\n"
     "task = \"language\"\n"},
    {"lstm",
     "steps = 2\nlanes = 2\n[data]\nsource = \"text\"\npath = \"text.txt\"\nwindow = 64\nbatch = 128\n[loss]\n"
     "task = \"language\"\n"},
};

const MemoryJob& find_job(const std::string& model) {
  std::vector<std::string> names;
  for (const MemoryJob& job : kJobs) {
    if (model == job.model) return job;
    names.emplace_back(job.model);
  }
  throw Error(ErrorKind::kInvalidInput,
              fmt::format("no job with the model \"{}\"{}", model, did_you_mean(model, names)), "--models",
              fmt::format("Models are {}.", join_words(names)));
}

// The processes that `parent` has started, and theirs.
void add_tree(pid_t parent, std::vector<pid_t>& processes) {
  processes.push_back(parent);
  std::ifstream file(fmt::format("/proc/{}/task/{}/children", parent, parent));
  for (pid_t child = 0; file >> child;)
    add_tree(child, processes);
}

std::uint64_t held_by_tree(pid_t root) {
  std::vector<pid_t> processes;
  add_tree(root, processes);
  std::uint64_t own = 0;
  std::uint64_t files = 0;  // the workers' are the same
  for (const pid_t process : processes) {
    const ProcessMemory memory = proportional_memory(process);
    own += memory.anonymous_bytes;
    files = std::max(files, memory.file_bytes);
  }
  return own + files;
}

struct Ran {
  std::string out;
  std::uint64_t peak_bytes = 0;
};

// Runs this program in `folder`. Throws kCompute when it fails.
Ran run_here(const std::filesystem::path& folder, std::vector<std::string> arguments) {
  const std::filesystem::path out = folder / "out";
  const FileDescriptor file(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) throw_system_error("write", out.string());
  launch::Command command{own_program(), std::move(arguments), {}};
  command.folder = folder.string();
  command.output = file.get();
  launch::ChildProcess child(command);
  Ran ran;
  const Deadline deadline = Deadline::after(kJobTimeout);
  std::optional<launch::Ending> ending;
  while (!(ending = child.poll())) {
    if (deadline.passed()) throw Error(ErrorKind::kTimeout, "the job did not end", command.arguments.front());
    ran.peak_bytes = std::max(ran.peak_bytes, held_by_tree(child.pid()));
    system_clock().sleep_for(kSampleInterval);
  }
  if (!ending->good())
    throw Error(ErrorKind::kCompute, fmt::format("muster {}: {}", command.arguments.front(), to_string(*ending)), {},
                "Its own message is above.");
  std::ifstream text(out);
  ran.out.assign(std::istreambuf_iterator<char>(text), {});
  return ran;
}

// Letters and spaces in no order: a model of characters does not mind.
void write_text(const std::filesystem::path& path) {
  std::ofstream file(path);
  for (int i = 0; i < 200'000; ++i)
    file.put(i % 7 == 6 ? ' ' : static_cast<char>('a' + (i * 31 + i / 11) % 26));
  if (!file.flush()) throw_system_error("write", path.string());
}

Json measure(const MemoryBench& bench, const MemoryJob& job, std::int64_t workers) {
  const TemporaryFolder folder("muster-memory");
  write_text(folder.path() / "text.txt");
  std::ofstream(folder.path() / "job.toml") << fmt::format(
      "[job]\nname = \"memory\"\n{}[model]\nname = \"{}\"\n[optimizer]\nname = \"{}\"\n[parallel]\n"
      "workers = {}\nstrategy = \"{}\"\n",
      job.text, job.model, bench.optimizer, workers, bench.strategy);
  const Json checked = Json::parse(run_here(folder.path(), {"check", "job.toml", "--memory", "--json"}).out);
  const auto estimate = checked.at("memory").at("total").get<double>();
  const auto peak = static_cast<double>(run_here(folder.path(), {"train", "job.toml", "--quiet"}).peak_bytes);
  Json row{{"bench", "memory"},
           {"model", job.model},
           {"workers", workers},
           {"strategy", bench.strategy},
           {"estimate_mb", estimate / 1e6},
           {"peak_mb", peak / 1e6},
           {"ratio", estimate / peak}};
  if (bench.json) row["items"] = checked.at("memory").at("items");
  return row;
}

}  // namespace

void bench_memory(const MemoryBench& bench) {
  for (const std::string& model : bench.models)
    find_job(model);
  for (const std::string& model : bench.models) {
    for (const std::int64_t workers : bench.workers)
      print_row(measure(bench, find_job(model), workers), bench.json);
  }
}

}  // namespace muster::cli
