// What facts mean: pure functions from what was found to findings with what to do. No torch here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/doctor/diagnosis.h"
#include "muster/cli/doctor/facts.h"

namespace muster::cli {

// One way between two hosts, as tried by `from`.
struct LinkFigures {
  std::size_t from = 0;  // places in the list of hosts
  std::size_t to = 0;
  std::string failure{};      // why it could not be tried; empty: it was
  double latency_us = 0;      // there and back, median
  double megabits = 0;        // a second, from there to here and here to there at once, of each direction
  double clock_ahead_ms = 0;  // the wall clock of `to` before that of `from`
};

// Of a machine by itself.
std::vector<Diagnosis> judge_machine(const MachineFacts& facts);
// What has to be the same everywhere: versions, data.
std::vector<Diagnosis> judge_together(const std::vector<MachineFacts>& hosts);
// Reachability both ways, clocks, and links that are much slower than the others.
std::vector<Diagnosis> judge_links(const std::vector<MachineFacts>& hosts, const std::vector<LinkFigures>& links);

// 0: nothing is wrong (there may be warnings); 1: something is.
int exit_code_for(const std::vector<Diagnosis>& findings);

// Two tables with a row and a column for each host: Mbit/s and microseconds. Rows try, columns answer.
std::string matrix_of(const std::vector<MachineFacts>& hosts, const std::vector<LinkFigures>& links);

}  // namespace muster::cli
