// A table of launchers, each with its variables, in the order in which they are believed. A value that is no number is
// an error: guessing a rank would start two of the same.
#include "muster/launch/environment.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::launch {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
};

// Ourselves, Open MPI, MPICH and its relatives, Slurm. Inside an mpirun that Slurm started, the MPI's own variables are
// right.
constexpr std::array kLaunchers{
    Launcher{"muster", "MUSTER_RANK", "MUSTER_SIZE"},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"mpirun", "PMI_RANK", "PMI_SIZE"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::optional<int> read_number(const Lookup& lookup, const char* name, int least) {
  const std::optional<std::string> text = lookup(name);
  if (!text) return std::nullopt;
  int value = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (code != std::errc() || end != text->data() + text->size() || value < least) {
    throw Error(ErrorKind::kInvalidInput, fmt::format("found \"{}\", expected a number, {} or more", *text, least),
                fmt::format("environment variable {}", name));
  }
  return value;
}

void read_host(const Lookup& lookup, World& world) {
  const std::optional<int> number = read_number(lookup, "MUSTER_HOST", 1);
  if (!number)
    throw Error(ErrorKind::kInvalidInput, "a worker of several hosts is not told which one is its own",
                "environment variable MUSTER_HOST");
  world.host = static_cast<std::uint64_t>(*number);
  world.interface = lookup("MUSTER_INTERFACE").value_or("");
}

}  // namespace

Lookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

World detect_world(const Lookup& lookup) {
  const int threads = read_number(lookup, "MUSTER_THREADS", 1).value_or(1);
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> rank = read_number(lookup, launcher.rank, 0);
    const std::optional<int> size = read_number(lookup, launcher.size, 1);
    if (!rank || !size) continue;
    if (*rank >= *size) {
      throw Error(ErrorKind::kInvalidInput, fmt::format("rank {} of {} processes", *rank, *size),
                  fmt::format("environment variable {}", launcher.rank));
    }
    World world;
    world.rank = *rank;
    world.size = *size;
    world.launcher = launcher.name;
    world.store = lookup("MUSTER_STORE").value_or("");
    world.arena = lookup("MUSTER_ARENA").value_or("");
    world.attempt = read_number(lookup, "MUSTER_ATTEMPT", 0).value_or(0);
    world.threads = threads;
    world.run = lookup("MUSTER_RUN").value_or("");
    world.cluster = lookup("MUSTER_CLUSTER").value_or("");
    if (!world.cluster.empty()) read_host(lookup, world);
    world.data = lookup("MUSTER_DATA").value_or("");
    world.servers = read_number(lookup, "MUSTER_SERVERS", 0).value_or(0);
    world.copies = read_number(lookup, "MUSTER_COPIES", 1).value_or(1);
    world.serves = lookup("MUSTER_SERVE") == "1";
    return world;
  }
  World alone;
  alone.threads = threads;
  return alone;
}

Variables kernel_variables(const Lookup& lookup) {
  Variables found;
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_BLOCK_FACTOR", "ATEN_CPU_CAPABILITY",
                           "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"})
    if (auto value = lookup(name)) found.emplace_back(name, std::move(*value));
  return found;
}

std::optional<int> granted_cores(const Lookup& lookup) {
  return read_number(lookup, "SLURM_CPUS_PER_TASK", 1);
}

}  // namespace muster::launch
