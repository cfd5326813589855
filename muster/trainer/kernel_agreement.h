// That the hosts of a job compute with the same kernels: with others they train, but not with the bits of one host, and
// nobody would know why. Compared in the store of all hosts before a worker meets the others. No torch here.
#pragma once

#include <cstdint>
#include <string>

#include "muster/comm/store.h"
#include "muster/compute/math_kernels.h"
#include "muster/strategies/membership.h"

namespace muster::trainer {

// The first host to come says what it has under "agreement/kernels"; one that has others says so to the coordinator,
// which tells people (control::other_kernels_key). `host` is its number, `self` its name for people. Throws as the
// store, but not for what differs: whether that matters is the user's to say.
void compare_kernels(comm::Store& store, std::uint64_t host, const std::string& self, const compute::MathKernels& mine);

// The same for a worker whose job may have several hosts, once for each host; else nothing is done.
void tell_other_kernels(const strategies::Supervised& supervised);

}  // namespace muster::trainer
