// The backend of a group of one: every operation is the identity, and nobody is waited for.
#pragma once

#include <memory>

#include "muster/comm/backend.h"

namespace muster::comm {

std::unique_ptr<Backend> make_self_backend();

}  // namespace muster::comm
