// Each launcher has a function that reads its variables; the first that finds its own is believed. By hand comes before
// all, because somebody has typed it; an MPI and PMIx before Slurm, because a mpirun or prterun that Slurm has started
// is what has started us.
#include "muster/launch/surroundings.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/text.h"

namespace muster::launch {
namespace {

constexpr const char* kByHand = "docs/launching.md has the variables to set on each machine instead.";

template <typename Number>
std::optional<Number> number(const Lookup& lookup, const char* name, Number least) {
  const std::optional<std::string> text = lookup(name);
  if (!text || text->empty()) return std::nullopt;
  Number value = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (code != std::errc() || end != text->data() + text->size() || value < least)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("found \"{}\", expected a number, {} or more", excerpt(*text, 80), least),
                fmt::format("environment variable {}", name));
  return value;
}

std::string short_hash(const std::string& text) {
  return sha256(std::as_bytes(std::span(text))).substr(0, 16);
}

std::string word(const Lookup& lookup, const char* name) {
  return lookup(name).value_or("");
}

void require_node(const Surroundings& found, const char* variable) {
  if (found.node >= found.nodes)
    throw Error(ErrorKind::kInvalidInput,
                fmt::format("node {} of {}; they are counted from 0", found.node, found.nodes),
                fmt::format("environment variable {}", variable));
}

std::optional<Surroundings> by_hand(const Lookup& lookup) {
  const std::optional<int> nodes = number(lookup, "MUSTER_NODES", 1);
  if (!nodes) return std::nullopt;
  const std::optional<int> node = number(lookup, "MUSTER_NODE", 0);
  if (!node)
    throw Error(ErrorKind::kInvalidInput, "MUSTER_NODES is set, and nothing says which of them this machine is",
                "environment variable MUSTER_NODE", "Set it to 0 on the first machine, 1 on the next, and so on.");
  Surroundings found;
  found.launcher = "hand";
  found.nodes = *nodes;
  found.node = *node;
  require_node(found, "MUSTER_NODE");
  found.name = word(lookup, "MUSTER_MEETING");
  found.job = found.name;
  found.interface = word(lookup, "MUSTER_INTERFACE");
  found.coordinator = word(lookup, "MUSTER_COORDINATOR");
  found.folder = word(lookup, "MUSTER_SHARED");
  found.certs = word(lookup, "MUSTER_CERTS");
  found.insecure = word(lookup, "MUSTER_INSECURE") == "1";
  found.reason = fmt::format("MUSTER_NODES={} and MUSTER_NODE={} are set", *nodes, *node);
  if (found.several() && found.coordinator.empty() && (found.folder.empty() || found.name.empty())) {
    found.trouble = "nothing says where the nodes meet";
    found.remedy =
        "Set MUSTER_COORDINATOR=HOST:PORT (and MUSTER_CERTS), or MUSTER_SHARED=FOLDER, one that all of them see, with "
        "MUSTER_MEETING=NAME, another one for each start.";
  }
  return found;
}

// Open MPI writes "JOB.0;tcp://10.0.0.1,10.1.0.1:4711;tcp6://[fd00::1]:4712".
std::vector<std::string> addresses_of_uri(const std::string& uri) {
  std::vector<std::string> addresses;
  for (std::size_t begin = uri.find("tcp://"); begin != std::string::npos; begin = uri.find("tcp://", begin)) {
    begin += 6;
    const std::size_t end = std::min(uri.find(';', begin), uri.size());
    std::string part = uri.substr(begin, end - begin);
    part = part.substr(0, part.rfind(':'));
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t comma = std::min(part.find(',', at), part.size());
      addresses.push_back(part.substr(at, comma - at));
      at = comma + 1;
    }
  }
  return addresses;
}

// Whose ranks count, where a launcher was started in an allocation.
std::string beside_slurm(const Lookup& lookup) {
  const std::string job = word(lookup, "SLURM_JOB_ID");
  return job.empty() ? "" : fmt::format("; inside of Slurm job {} it is this launcher's ranks that count", job);
}

void refuse_several_a_node(Surroundings& found, const std::string& who, int processes, const std::string& place,
                           const std::string& remedy) {
  found.trouble = fmt::format("{} started {} processes on {}; Muster wants one on each node, and starts {} by itself",
                              who, processes, place, "parallel.workers");
  found.remedy = remedy;
}

// What one task was granted. Without a limit of its own SLURM_MEM_PER_NODE is 0 or missing.
void read_slurm_grants(const Lookup& lookup, Surroundings& found) {
  constexpr std::uint64_t kMegabyte = 1 << 20;
  found.cores = number(lookup, "SLURM_CPUS_PER_TASK", 1);
  if (!found.cores) found.cores = number(lookup, "SLURM_CPUS_ON_NODE", 1);
  const auto a_node = number<std::uint64_t>(lookup, "SLURM_MEM_PER_NODE", 0);
  const auto a_core = number<std::uint64_t>(lookup, "SLURM_MEM_PER_CPU", 0);
  const auto cores = number<std::uint64_t>(lookup, "SLURM_CPUS_ON_NODE", 1);
  if (a_node.value_or(0) > 0)
    found.memory_bytes = *a_node * kMegabyte;
  else if (a_core.value_or(0) > 0 && cores)
    found.memory_bytes = *a_core * *cores * kMegabyte;
  found.restarts = number(lookup, "SLURM_RESTART_COUNT", 0).value_or(0);
}

std::optional<Surroundings> by_open_mpi(const Lookup& lookup) {
  const std::optional<int> rank = number(lookup, "OMPI_COMM_WORLD_RANK", 0);
  const std::optional<int> size = number(lookup, "OMPI_COMM_WORLD_SIZE", 1);
  if (!rank || !size) return std::nullopt;
  Surroundings found;
  found.launcher = "mpi";
  found.nodes = *size;
  found.node = *rank;
  require_node(found, "OMPI_COMM_WORLD_RANK");
  found.together = true;
  const std::string uri = word(lookup, "OMPI_MCA_orte_hnp_uri");
  const std::string job = word(lookup, "PMIX_NAMESPACE");
  found.towards = addresses_of_uri(uri);
  found.ranks_of_mpi = true;
  found.name = fmt::format("mpi-{}", short_hash(job + "\n" + uri));
  found.reason = fmt::format("OMPI_COMM_WORLD_RANK={} of {}{}", *rank, *size, beside_slurm(lookup));
  if (!word(lookup, "SLURM_JOB_ID").empty()) read_slurm_grants(lookup, found);
  const int here = number(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE", 1).value_or(1);
  const int machines = number(lookup, "OMPI_MCA_orte_num_nodes", 1).value_or(std::numeric_limits<int>::max());
  const std::string remedy = "mpirun -N 1 muster ...: one process a node; with one machine leave mpirun out.";
  if (here > 1)
    refuse_several_a_node(found, "mpirun", here, "this machine", remedy);
  else if (*size > machines)
    refuse_several_a_node(found, "mpirun", *size, fmt::format("{} machines", machines), remedy);
  else if (found.several() && job.empty() && uri.empty()) {
    found.trouble = "this mpirun gives its processes no name that all of them share (PMIX_NAMESPACE)";
    found.remedy = kByHand;
  }
  return found;
}

std::optional<Surroundings> by_slurm(const Lookup& lookup) {
  const std::string job = word(lookup, "SLURM_JOB_ID");
  if (job.empty()) return std::nullopt;
  Surroundings found;
  found.launcher = "slurm";
  found.together = true;
  read_slurm_grants(lookup, found);
  const std::optional<int> task = number(lookup, "SLURM_PROCID", 0);
  const std::optional<int> tasks = number(lookup, "SLURM_STEP_NUM_TASKS", 1);
  const int of_the_job = number(lookup, "SLURM_JOB_NUM_NODES", 1).value_or(1);
  if (!task || !tasks) {
    // A batch script, or a shell of salloc.
    found.name = fmt::format("slurm-{}", job);
    found.reason = fmt::format("SLURM_JOB_ID={}, and no step of srun", job);
    if (of_the_job > 1) {
      found.trouble =
          fmt::format("Slurm job {} has {} nodes, and this process was not started by srun", job, of_the_job);
      found.remedy =
          "srun --ntasks-per-node=1 muster ...: one task on each node. With --listen or --hosts this host alone "
          "counts, and the others as they are said.";
    }
    return found;
  }
  const std::string step = word(lookup, "SLURM_STEP_ID");
  found.name = fmt::format("slurm-{}.{}.{}", job, step, found.restarts);
  found.job = fmt::format("slurm-{}.{}", job, step);
  found.nodes = *tasks;
  found.node = *task;
  found.ranks_of_mpi = !word(lookup, "PMIX_RANK").empty();  // srun --mpi=pmix
  require_node(found, "SLURM_PROCID");
  if (const std::string list = word(lookup, "SLURM_STEP_NODELIST"); !list.empty()) found.names = expand_node_list(list);
  if (const std::string launched = word(lookup, "SLURM_LAUNCH_NODE_IPADDR"); !launched.empty())
    found.towards = {launched};
  found.reason = fmt::format("SLURM_JOB_ID={}, SLURM_STEP_ID={}: task {} of {}", job, step, *task, *tasks);
  const int machines = number(lookup, "SLURM_STEP_NUM_NODES", 1).value_or(static_cast<int>(found.names.size()));
  std::vector<int> counts;
  if (const std::string text = word(lookup, "SLURM_STEP_TASKS_PER_NODE"); !text.empty())
    counts = expand_task_counts(text);
  const auto most = std::max_element(counts.begin(), counts.end());
  const std::string remedy =
      "srun --ntasks-per-node=1 --cpus-per-task=CORES muster ...: one task a node, with all of its cores.";
  if (most != counts.end() && *most > 1) {
    const auto at = static_cast<std::size_t>(most - counts.begin());
    refuse_several_a_node(found, "srun", *most, at < found.names.size() ? found.names[at] : "a node", remedy);
  } else if (*tasks > machines) {
    refuse_several_a_node(found, "srun", *tasks, fmt::format("{} nodes", machines), remedy);
  }
  return found;
}

// MPICH's and others' by PMI: they say a rank and a size, but not what all have in common.
std::optional<Surroundings> by_pmi(const Lookup& lookup) {
  const std::optional<int> size = number(lookup, "PMI_SIZE", 1);
  if (!size || *size == 1) return std::nullopt;
  Surroundings found;
  found.launcher = "mpi";
  found.reason = fmt::format("PMI_SIZE={}", *size);
  found.trouble = "an MPI other than Open MPI has started this: its processes have no name in common";
  found.remedy = kByHand;
  return found;
}

// Launchers that have PMIx alone: variables say a rank and the job's name, its server the rest. Tasks of srun
// --mpi=pmix are Slurm's.
std::optional<Surroundings> by_pmix(const Lookup& lookup, const AskPmix& ask) {
  const std::string name = word(lookup, "PMIX_NAMESPACE");
  const std::optional<int> rank = number(lookup, "PMIX_RANK", 0);
  if (name.empty() || !rank || name.starts_with("slurm.")) return std::nullopt;
  Surroundings found;
  found.launcher = "pmix";
  found.reason = fmt::format("PMIX_NAMESPACE={}, PMIX_RANK={}{}", excerpt(name, 80), *rank, beside_slurm(lookup));
  const std::optional<PmixJob> job = ask();
  if (!job || job->rank != *rank || *rank >= job->size) {
    found.trouble = "PMIX_RANK is set, and no PMIx server says how many processes there are";
    found.remedy = kByHand;
    return found;
  }
  if (!word(lookup, "SLURM_JOB_ID").empty()) read_slurm_grants(lookup, found);
  found.nodes = job->size;
  found.node = *rank;
  found.together = true;
  found.ranks_of_mpi = true;
  const std::string uri = word(lookup, "OMPI_MCA_orte_hnp_uri");
  found.towards = addresses_of_uri(uri);
  found.name = fmt::format("pmix-{}", short_hash(name + "\n" + uri));
  found.reason += fmt::format("; its PMIx server says that there are {}", job->size);
  const std::string remedy = "prterun --map-by ppr:1:node muster ...: one process a node.";
  if (job->here > 1)
    refuse_several_a_node(found, "the launcher", job->here, "this machine", remedy);
  else if (job->machines && job->size > *job->machines)
    refuse_several_a_node(found, "the launcher", job->size, fmt::format("{} machines", *job->machines), remedy);
  return found;
}

}  // namespace

Surroundings detect_surroundings(const Lookup& lookup, const AskPmix& ask) {
  for (const auto& detect : {by_hand, by_open_mpi})
    if (std::optional<Surroundings> found = detect(lookup)) return *found;
  if (std::optional<Surroundings> found = by_pmix(lookup, ask)) return *found;
  for (const auto& detect : {by_slurm, by_pmi})
    if (std::optional<Surroundings> found = detect(lookup)) return *found;
  Surroundings alone;
  alone.reason = "no variables of Slurm, of an MPI or of docs/launching.md are set";
  return alone;
}

std::string to_string(const Surroundings& found) {
  if (found.launcher.empty()) return fmt::format("nobody started this on several machines ({})", found.reason);
  const std::string names =
      found.names.empty() ? "" : fmt::format(", {}", excerpt(fmt::format("{}", fmt::join(found.names, " ")), 200));
  const std::string who = found.launcher == "slurm"  ? "Slurm"
                          : found.launcher == "mpi"  ? "mpirun"
                          : found.launcher == "pmix" ? "PMIx"
                                                     : "by hand";
  if (!found.trouble.empty()) return fmt::format("{}: {} ({})", who, found.trouble, found.reason);
  return fmt::format("{}: node {} of {}{} ({})", who, found.node, found.nodes, names, found.reason);
}

Memory memory_in(const Surroundings& found) {
  const Memory memory = usable_memory();
  if (!found.memory_bytes || *found.memory_bytes >= memory.usable_bytes) return memory;
  return {*found.memory_bytes, "what Slurm has granted on this node"};
}

void require_usable(const Surroundings& found) {
  if (!found.trouble.empty()) throw Error(ErrorKind::kInvalidInput, found.trouble, {}, found.remedy);
}

}  // namespace muster::launch
