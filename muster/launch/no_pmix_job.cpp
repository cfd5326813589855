// The twin of pmix_job.cpp in a build without libpmix: nobody can be asked, so launchers that have PMIx alone are
// refused with that reason.
#include "muster/launch/pmix_job.h"

namespace muster::launch {

std::optional<PmixJob> ask_pmix() {
  return std::nullopt;
}

}  // namespace muster::launch
