// muster info: what this build and this machine offer. Says also why something is not there, because that is what
// people look for here.
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "muster/base/cores.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/base/version.h"
#include "muster/cli/command.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/mpi_transport.h"
#include "muster/compute/threads.h"
#include "muster/data/sources.h"
#include "muster/launch/surroundings.h"
#include "muster/model/registry.h"
#include "muster/strategies/registry.h"

namespace muster::cli {
namespace {

template <typename Entries>
std::vector<std::string> names_of(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries)
    names.push_back(entry.name);
  return names;
}

std::string or_unknown(const std::string& name) {
  return name.empty() ? "unknown ones" : name;
}

void run_info(bool json) {
  const launch::Surroundings surroundings = launch::detect_surroundings();
  const Cores cores = usable_cores(surroundings.cores);
  compute::set_threads(1);
  const compute::ComputeLibraries libraries = compute::compute_libraries();
  const std::vector<std::string> models = names_of(model::models());
  const std::vector<std::string> sources = names_of(data::sources());
  const std::vector<std::string> strategies = strategies::strategy_names();
  const std::string mpi = comm::mpi_available() ? comm::mpi_library() : "none";
  const auto missing_gloo = comm::missing_gloo();
  const Memory memory = launch::memory_in(surroundings);
  if (json) {
    const Json row{{"muster", version()},
                   {"torch", libraries.kernels.torch},
                   {"blas", libraries.blas},
                   {"kernels", {{"aten", libraries.kernels.aten}, {"blas", libraries.kernels.blas}}},
                   {"cuda", libraries.cuda},
                   {"cores", cores.usable},
                   {"cores_reason", cores.reason},
                   {"cores_limits", cores.limits},
                   {"threads", {{"aten", libraries.aten_threads}, {"blas", libraries.blas_threads}}},
                   {"memory_bytes", memory.usable_bytes},
                   {"memory_reason", memory.reason},
                   {"launcher", surroundings.launcher},
                   {"nodes", surroundings.nodes},
                   {"node", surroundings.node},
                   {"launcher_reason", surroundings.reason},
                   {"launcher_trouble", surroundings.trouble},
                   {"gloo", !missing_gloo},
                   {"mpi", mpi},
                   {"strategies", strategies},
                   {"models", models},
                   {"sources", sources}};
    fmt::print("{}\n", row.dump());
    return;
  }
  fmt::print("Muster      {}\n", version());
  fmt::print("LibTorch    {}{}\n", libraries.kernels.torch,
             libraries.cuda ? " (with CUDA; Muster was only ever run on CPUs)" : "");
  fmt::print("BLAS        {}\n", libraries.blas);
  fmt::print("kernels     {} of LibTorch, {} of the BLAS: with others the bits are others\n",
             or_unknown(libraries.kernels.aten), or_unknown(libraries.kernels.blas));
  fmt::print("cores       {} usable ({}; {})\n", cores.usable, cores.reason, cores.limits);
  fmt::print("threads     {} ATen, {} BLAS a lane, unless job.threads says otherwise\n", libraries.aten_threads,
             libraries.blas_threads == 0 ? "the same for" : fmt::format("{}", libraries.blas_threads));
  fmt::print("memory      {} usable ({})\n", human_bytes(memory.usable_bytes), memory.reason);
  fmt::print("processes   shared memory on this host; between hosts Gloo: {}, MPI: {}\n",
             missing_gloo ? fmt::format("no ({})", missing_gloo->reason) : "yes", mpi);
  fmt::print("started     {}\n", launch::to_string(surroundings));
  if (!surroundings.trouble.empty()) fmt::print("            {}\n", surroundings.remedy);
  fmt::print("strategies  {}\n", join_words(strategies));
  fmt::print("models      {}\n", join_words(models));
  fmt::print("sources     {}\n", join_words(sources));
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "Versions, cores, threads, and what this build has.");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As one JSON object");
  command->footer("Examples:\n  muster info\n  muster info --json | jq .cores");
  command->callback([json] { run_info(*json); });
}

}  // namespace muster::cli
