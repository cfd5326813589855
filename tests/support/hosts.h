// Hosts for tests of what spans machines: those that `muster bench step --hosts` has.
#pragma once

#include "muster/launch/namespace_hosts.h"
#include "support/finished.h"

namespace muster::testing {

using launch::Host;
using launch::HostProgram;
using launch::Hosts;

}  // namespace muster::testing
