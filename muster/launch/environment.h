// What the environment says about how this process was started: alone, or as one of many by a launcher.
//
// The only place below cli/ that reads environment variables; everybody else is told.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::launch {

// In the store of supervised workers, once their program has made a group that nobody can join later.
constexpr const char* kFixedKey = "fixed";
// There as soon as a worker was refused because it would not train what the others train: the job cannot go on as
// asked.
constexpr const char* kRefusedKey = "refused";

// In a worker's command: what workers print goes into files whose names begin with this, LOGS.txt of the first one,
// LOGS.1.txt, ...
constexpr const char* kLogsVariable = "MUSTER_LOGS";

struct World {
  int rank = 0;
  int size = 1;
  std::string launcher{};  // "muster", "mpirun", "srun", or empty when nobody launched us
  std::string store{};     // the folder by which the processes find each other (MUSTER_STORE); empty: none was given
  // Of a worker that a supervisor watches and replaces (MUSTER_ARENA): "found", "join", or where the arena is to be
  // had.
  std::string arena{};
  int attempt = 0;    // how many processes had this rank before (MUSTER_ATTEMPT)
  std::string run{};  // the folder of the job's run, where this host has it (MUSTER_RUN); empty: there is none
  // Of a worker on one of several hosts, set by the agent that has started it:
  std::string cluster{};         // where the store of all hosts is to be had (MUSTER_CLUSTER); empty: there is one host
  std::uint64_t host = 0;        // the number of this one (MUSTER_HOST)
  std::string interface {};      // of the network to the others (MUSTER_INTERFACE)
  std::string network = "gloo";  // between hosts, as comm/connect.h names them; the job says it, no variable does
  std::string data{};            // where data of other hosts is to be had (MUSTER_DATA); empty: nowhere
  int servers = 0;               // parameter servers that were started with the workers of a program (MUSTER_SERVERS)
  int copies = 1;                // of what they hold, on different ones (MUSTER_COPIES)
  bool serves = false;           // this process is one of them: rank and size count servers (MUSTER_SERVE)
  int threads = 1;               // that LibTorch and the BLAS get, until the program says otherwise (MUSTER_THREADS)
};

// Looks a variable up; nothing when it is not set. A parameter, so that tests need not touch the environment.
using Lookup = std::function<std::optional<std::string>(const std::string&)>;

// The process's own environment.
Lookup process_environment();

// Throws Error{kInvalidInput} naming a variable whose value makes no sense.
World detect_world(const Lookup& lookup = process_environment());

// Names and values: variables of a process.
using Variables = std::vector<std::pair<std::string, std::string>>;

// Those that are set of which LibTorch and its BLAS choose their kernels by, and with them the bits: what is started on
// other machines needs the same. Numbers of threads are not among them, because Muster sets them by the job.
Variables kernel_variables(const Lookup& lookup = process_environment());

// Cores granted to this task by Slurm (SLURM_CPUS_PER_TASK), if it was.
std::optional<int> granted_cores(const Lookup& lookup = process_environment());

}  // namespace muster::launch
