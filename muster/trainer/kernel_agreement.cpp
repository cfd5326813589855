// As data_agreement.h, but nobody is refused: a job on machines of several kinds is better trained than not. So what
// differs is left for the coordinator to tell, and the worker goes on.
#include "muster/trainer/kernel_agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/base/host_name.h"
#include "muster/base/json.h"
#include "muster/compute/threads.h"
#include "muster/control/job_generation.h"
#include "muster/trainer/session_agreement.h"

namespace muster::trainer {
namespace {

constexpr const char* kKernelsKey = "agreement/kernels";

}  // namespace

void compare_kernels(comm::Store& store, std::uint64_t host, const std::string& self,
                     const compute::MathKernels& mine) {
  const Json said{{"host", self}, {"torch", mine.torch}, {"blas", mine.blas}, {"aten", mine.aten}};
  const std::optional<std::string> found = set_or_find(store, kKernelsKey, said.dump());
  if (!found) return;
  const std::string where = fmt::format("\"{}\" in the job's store", kKernelsKey);
  const Json json = parse_json(*found, where);
  const compute::MathKernels theirs{json_get<std::string>(json, "torch", where),
                                    json_get<std::string>(json, "blas", where),
                                    json_get<std::string>(json, "aten", where)};
  const std::vector<std::string> lines =
      compute::kernel_differences(theirs, json_get<std::string>(json, "host", where), mine, self);
  if (lines.empty()) return;
  try {
    store.set(control::other_kernels_key(host),
              fmt::format("warning: the hosts do not compute with the same kernels, so the bits of the result are not "
                          "those of one host: {}",
                          fmt::join(lines, " ")));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMismatch) throw;  // a worker before this one has said it, in other words
  }
}

void tell_other_kernels(const strategies::Supervised& supervised) {
  // All workers of a host have the same kernels.
  if (!supervised.host || supervised.seat != 0) return;
  const auto store = comm::with_interruption(supervised.host->store, supervised.interruption);
  compare_kernels(*store, supervised.host->number, fmt::format("{} ({})", host_name(), supervised.host->number),
                  compute::compute_libraries().kernels);
}

}  // namespace muster::trainer
