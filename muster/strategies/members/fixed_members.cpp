// A loss in a fixed group ends the job. What can be done then is said here, for the group of a host (host_members.h) as
// for one over a network.
#include "muster/strategies/members/fixed_members.h"

#include "muster/base/error.h"

namespace muster::strategies {

void refuse_replacement() {
  throw Error(
      ErrorKind::kUnsupported, "the workers of this job cannot be replaced", {},
      "Start it again from its last checkpoint, or use a strategy that replaces lost workers (docs/recovery.md).");
}

void FixedMembers::write_note(const std::string& text) {
  if (!write_) return;
  noted_ = clock_.now();
  write_(text);
}

}  // namespace muster::strategies
