// Benchmarks between processes start their ranks themselves: this same program with --rank-folder and --rank, which no
// user types.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::cli {

constexpr std::chrono::minutes kRankRunTimeout{60};

// Runs `ranks` processes to their end, each with the arguments that `arguments` gives for the folder of their store
// and, unless mpirun tells it, with --rank N. Under mpirun they get --under-mpi. Throws kPeerLost if one ends badly;
// the others are ended then. The folder is removed.
void run_rank_processes(std::int64_t ranks, bool under_mpi,
                        const std::function<std::vector<std::string>(const std::string& folder)>& arguments);

}  // namespace muster::cli
