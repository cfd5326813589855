// The client's end of a Unix socket, made by hand so that the other end can be looked at before a byte is sent.
//
// Names of abstract sockets are seen by every user, and free once their owner has died: whoever takes such a name would
// be given the token, and all that follows it. Who listens the kernel says.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "muster/base/deadline.h"
#include "muster/base/files.h"

namespace muster::control {

// Whether the address is one of those below.
bool is_local(std::string_view address);

// Connects to "unix-abstract:NAME" or "unix:PATH", where a process of `owner` must listen; `who` it should be is for
// the message. The connection does not block. Throws kDamaged (no such address), kPeerLost (nobody listens there, or a
// process of another user does), kIo, kResource.
FileDescriptor connect_local(const std::string& address, uid_t owner, std::string_view who, const Deadline& deadline);

}  // namespace muster::control
