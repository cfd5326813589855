// What muster chaos prints in the end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/json.h"
#include "muster/cli/chaos/checks.h"
#include "muster/cli/chaos/throughput.h"

namespace muster::cli {

struct ChaosReport {
  std::string run;
  std::uint64_t seed = 0;
  int hosts = 0;       // of a job of several; 0: it has one
  double seconds = 0;  // of the disturbed time
  std::vector<MadeFault> faults = {};
  int failed_faults = 0;
  std::optional<Throughput> throughput = {};
  std::optional<double> goal = {};  // least share of the ideal
  std::vector<Finding> findings = {};

  // Whether no invariant is broken and the goal, if there is one, is reached.
  bool good() const;
};

Json to_json(const ChaosReport& report);
std::string to_text(const ChaosReport& report);

}  // namespace muster::cli
