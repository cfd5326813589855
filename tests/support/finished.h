// How a program that a test started has ended, and what it printed.
#pragma once

#include "muster/launch/finished.h"

namespace muster::testing {

using launch::Finished;

}  // namespace muster::testing
