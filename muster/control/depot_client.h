// The depot of this host (data/depot.h) as a worker reaches it: through a door that its agent keeps (depot_door.h).
#pragma once

#include <memory>
#include <string>

#include "muster/data/piece_door.h"

namespace muster::control {

// What MUSTER_DATA says (launch/environment.h): "unix-abstract:NAME,TOKEN_FILE". Waits are cut into pieces; what is
// expected is told by a thread of its own. Throws kInvalidInput (no such address), kPeerLost (nobody listens, or a
// process of another user does), and as read_token (access_token.h).
std::shared_ptr<data::PieceDoor> open_depot(const std::string& address);

}  // namespace muster::control
