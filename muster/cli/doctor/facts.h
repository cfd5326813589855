// Facts of a machine, as `muster doctor` collects them there. They are judged elsewhere (judge.h), on the machine that
// has those of all: so they travel, as JSON. No torch here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/compute/math_kernels.h"

namespace muster::cli {

struct MachineFacts {
  std::string host{};  // as it is called
  // versions
  std::string muster{};
  compute::MathKernels kernels{};  // and LibTorch's version
  std::string kernel{};            // "Linux 6.1.0 x86_64"
  std::string c_library{};
  // cores and limits
  int cores = 1;
  std::string cores_reason{};
  int machine_cores = 1;
  double load = 0;  // processes that ran or wanted to, over the last minute
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;  // that this user may have; the largest number: no limit
  // memory
  std::uint64_t memory = 0;
  std::string memory_reason{};
  std::uint64_t shared_memory = 0;  // free in /dev/shm
  // names
  std::vector<std::string> own_addresses{};  // that its own name leads to
  // what may have started us
  std::string mpi{};     // this build's library; empty: none
  std::string mpirun{};  // its place; empty: not found
  std::string slurm{};   // sinfo's place; empty: not found
  std::string slurm_job{};
  // certificates; empty: none were named
  std::string certificate{};        // whose
  std::string certificate_wrong{};  // why it does not count
  double certificate_days = 0;      // left
  // the job; empty: none was named
  std::string job{};
  std::string job_wrong{};
  std::string job_remedy{};
  std::int64_t job_workers = 1;
  std::int64_t job_threads = 1;
  std::vector<std::string> job_doubts{};
  std::map<std::string, std::string> data{};  // what is read: its fingerprint
  std::string probe{};                        // ADDRESS:PORT at which its links are tried; empty: nowhere
};

Json to_json(const MachineFacts& facts);
// Throws kDamaged.
MachineFacts facts_from(const Json& json, const std::string& where);

struct FactsOptions {
  std::string host{};                    // what it is called; empty: as it calls itself
  std::filesystem::path certificates{};  // a folder of muster certs; empty: none
  std::optional<std::filesystem::path> job{};
  std::vector<std::string> assignments{};  // over what the job's file says
};

// Looks at this machine. Throws nothing for what is wrong with it: that is a fact, too.
MachineFacts collect_facts(const FactsOptions& options);

}  // namespace muster::cli
