// The connection lasts for the questions alone: a worker may be this rank of MPI afterwards, in a process of its own.
// An answer of another type than PMIx documents counts as none.
#include "muster/launch/pmix_job.h"

#include <pmix.h>

#include <cstdint>
#include <limits>

namespace muster::launch {
namespace {

std::optional<int> number_of(const pmix_proc_t& whose, const char* key) {
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&whose, key, nullptr, 0, &value) != PMIX_SUCCESS || value == nullptr) return std::nullopt;
  std::optional<int> number;
  if (value->type == PMIX_UINT32 && value->data.uint32 <= std::uint32_t{std::numeric_limits<int>::max()})
    number = static_cast<int>(value->data.uint32);
  PMIX_VALUE_RELEASE(value);
  return number;
}

std::optional<PmixJob> ask() {
  pmix_proc_t self;
  if (PMIx_Init(&self, nullptr, 0) != PMIX_SUCCESS) return std::nullopt;
  pmix_proc_t all = self;
  all.rank = PMIX_RANK_WILDCARD;
  std::optional<PmixJob> job;
  if (const std::optional<int> size = number_of(all, PMIX_JOB_SIZE); size && *size > 0)
    job = PmixJob{static_cast<int>(self.rank), *size, number_of(all, PMIX_LOCAL_SIZE).value_or(1),
                  number_of(all, PMIX_NUM_NODES)};
  PMIx_Finalize(nullptr, 0);
  return job;
}

}  // namespace

std::optional<PmixJob> ask_pmix() {
  static const std::optional<PmixJob> job = ask();
  return job;
}

}  // namespace muster::launch
