// Tagged messages over a transport: the point-to-point half of the network backend. Slots: network_backend.h.
//
// Thread safety: as the transport's.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/comm/backend.h"
#include "muster/comm/mailbox.h"
#include "muster/comm/transport.h"

namespace muster::comm {

// REQUIRES: peer is not this rank.
std::unique_ptr<Transfer> send_message(const std::shared_ptr<Transport>& transport, int peer, std::uint32_t tag,
                                       ConstView data);
std::unique_ptr<Transfer> receive_message(const std::shared_ptr<Transport>& transport, int peer, std::uint32_t tag,
                                          View data);

// A rank's messages to itself: copied when they are sent.
std::unique_ptr<Transfer> send_to_itself(Mailbox& mailbox, int rank, std::uint32_t tag, ConstView data);
std::unique_ptr<Transfer> receive_from_itself(std::shared_ptr<Mailbox> mailbox, int rank, std::uint32_t tag, View data);

}  // namespace muster::comm
