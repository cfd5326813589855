// What a PMIx server says of the job that it has started, where variables say a rank and nothing else: prterun, and
// others that have PMIx alone. A build without libpmix has the same function, which knows nothing.
#pragma once

#include <functional>
#include <optional>

namespace muster::launch {

struct PmixJob {
  int rank = 0;
  int size = 1;
  int here = 1;                   // processes of the job on this machine
  std::optional<int> machines{};  // that the job is on; nothing: it does not say
};

using AskPmix = std::function<std::optional<PmixJob>()>;

// Asks the server that the environment names, once in a process; nothing: none answers. Thread safety: from any thread.
std::optional<PmixJob> ask_pmix();

}  // namespace muster::launch
