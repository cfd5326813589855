// The one place where tests poll, so that every such wait has a deadline and says whether it came.
#pragma once

#include "muster/base/eventually.h"

namespace muster::testing {

using muster::eventually;

}  // namespace muster::testing
