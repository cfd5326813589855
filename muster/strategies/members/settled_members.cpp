// A generation that fails while its members meet is the first one still: nothing was trained in it. From the first
// meeting on a loss is the end.
#include "muster/strategies/members/settled_members.h"

#include "muster/base/check.h"
#include "muster/strategies/members/fixed_members.h"

namespace muster::strategies {

SettledMembers::SettledMembers(const Supervised& supervised) : host_(supervised, comm::Group()) {
  MUSTER_CHECK(supervised.host.has_value(), "a fixed group on one host needs no roster");
  host_.meet();
  MUSTER_CHECK(members().leader == 0, "all have come at the same time: the first rank leads");
}

void SettledMembers::rejoin() {
  refuse_replacement();
}

void SettledMembers::begin(comm::Activity activity) {
  if (activity == comm::Activity::kDone) host_.begin(activity);
}

}  // namespace muster::strategies
