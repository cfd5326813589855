// The ranks are this program again, with flags that no user types; under mpirun where MPI takes part. All are on this
// machine, and the first that fails ends the others.
#include "muster/cli/bench/rank_processes.h"

#include <unistd.h>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/temporary_folder.h"
#include "muster/cli/workers.h"
#include "muster/launch/child_process.h"

namespace muster::cli {
void run_rank_processes(std::int64_t ranks, bool under_mpi,
                        const std::function<std::vector<std::string>(const std::string& folder)>& arguments) {
  const TemporaryFolder folder("muster-bench-");
  const std::string program = own_program();
  const std::vector<std::string> common = arguments(folder.path().string());
  std::vector<launch::ChildProcess> children;
  if (under_mpi) {
    // One machine, loopback only, and its usual transports; more ranks than cores are wanted here. mpirun's own
    // connections are left to it: that of Open MPI 5 refuses the loopback for them.
    std::vector<std::string> words{
        "--oversubscribe",     "--bind-to", "none", "--mca", "btl_tcp_if_include", "lo", "-n",
        std::to_string(ranks), program};
    if (::geteuid() == 0) words.insert(words.begin(), "--allow-run-as-root");
    words.insert(words.end(), common.begin(), common.end());
    words.emplace_back("--under-mpi");
    children.emplace_back(launch::Command{"mpirun", words, {}});
  } else {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::string> words = common;
      words.insert(words.end(), {"--rank", std::to_string(rank)});
      children.emplace_back(launch::Command{program, words, {}});
    }
  }
  if (const auto failed = launch::wait_for_all(children, Deadline::after(kRankRunTimeout)))
    throw Error(ErrorKind::kPeerLost,
                fmt::format("a process of the benchmark ended with {}", to_string(failed->ending)));
}

}  // namespace muster::cli
