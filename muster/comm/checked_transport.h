// A transport whose messages carry a CRC-32C: the 16-bit sum of TCP lets one damaged packet in 65,536 pass, and a bit
// of a gradient that has flipped on its way would be committed unseen. A message that arrives damaged is given to
// nobody: the receive fails with kPeerLost that names its sender, and so does everything else of the transport, on all
// ranks, as after any loss. What was made of whole messages is made again without it.
//
// Thread safety: as the transport's.
#pragma once

#include <memory>

#include "muster/comm/transport.h"

namespace muster::comm {

// All ranks of `transport` have to do it.
std::unique_ptr<Transport> with_checksums(std::unique_ptr<Transport> transport);

}  // namespace muster::comm
