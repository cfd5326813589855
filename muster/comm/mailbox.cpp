// Type and length have to fit exactly, in both directions: a receive that would be filled by half is an error of the
// program, said to the receiver with what both ends asked for.
#include "muster/comm/mailbox.h"

#include <cstring>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::comm {

void require_fit(ElementType type, std::uint64_t bytes, int sender, std::uint32_t tag, const View& target) {
  if (type == target.type && bytes == target.bytes().size()) return;
  throw Error(ErrorKind::kMismatch,
              fmt::format("receive: rank {} sent {} {} with tag {}, and {} {} are expected", sender,
                          bytes / size_of(type), to_string(type), tag, target.count, to_string(target.type)),
              {}, "Give send and receive the same type and length.");
}

void deliver(const Message& message, int sender, std::uint32_t tag, const View& target) {
  require_fit(message.type, message.bytes.size(), sender, tag, target);
  if (!message.bytes.empty()) std::memcpy(target.data, message.bytes.data(), message.bytes.size());
}

}  // namespace muster::comm
