// What muster chaos was asked for, and what it does with a job of one host and with one of several have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/chaos/report.h"
#include "muster/trainer/job.h"

namespace muster::cli {

inline constexpr const char* kUsualFaults = "kill,stop";
inline constexpr const char* kUsualHostFaults = "host,freeze,link,oneway,split";
// Of a process on a host that looks at the job there (look.h), and the file that it writes in the folder it is in.
inline constexpr const char* kLookRole = "look";
inline constexpr const char* kLooksFile = "looks.jsonl";

struct ChaosFlags {
  std::string job;
  std::string runs = "runs";
  std::vector<std::string> assignments;
  std::string faults;  // empty: the usual ones
  double rate = 6;
  std::uint64_t seed = 1;
  double minutes = 5;
  double calm_seconds = 20;
  std::string then = "wait";
  bool compare = false;
  std::string reference;
  std::optional<double> goal;
  bool json = false;
  int hosts = 0;             // that are made for the job; 0: it runs here
  std::optional<int> count;  // of faults, at most
  std::string role;          // empty: the command that people type
};

// Throws kInvalidInput for a job that does not outlive a fault. `compares`: or whose weights are no two times the same.
void require_supervised(const trainer::Job& job, bool compares);

struct HostsChaosEnd {
  ChaosReport report;
  int interruption = 0;  // exit code after a signal; 0: none came
};
// muster chaos --hosts. Throws kUnsupported where no hosts can be made, kInvalidInput for what cannot be done with
// several, and as load_job.
HostsChaosEnd disturb_hosts(const ChaosFlags& flags);

}  // namespace muster::cli
