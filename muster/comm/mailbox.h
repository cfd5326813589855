// Messages that wait inside one process for their receive: what a rank sent to itself, and what arrived before anybody
// asked for it. Ordered by (sender, tag). Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "muster/comm/element.h"

namespace muster::comm {

struct Message {
  ElementType type = ElementType::kUint8;
  std::vector<std::byte> bytes;
};

class Mailbox {
 public:
  void put(int sender, std::uint32_t tag, Message message) {
    held_bytes_ += message.bytes.size();
    messages_[{sender, tag}].push_back(std::move(message));
  }

  // The oldest message of that sender and tag.
  std::optional<Message> take(int sender, std::uint32_t tag) {
    const auto found = messages_.find({sender, tag});
    if (found == messages_.end()) return std::nullopt;
    Message message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) messages_.erase(found);
    held_bytes_ -= message.bytes.size();
    return message;
  }

  std::size_t held_bytes() const { return held_bytes_; }

 private:
  std::map<std::pair<int, std::uint32_t>, std::deque<Message>> messages_;
  std::size_t held_bytes_ = 0;
};

// Copies a message to where it was asked for. Throws kMismatch, naming sender, tag and both sizes.
void deliver(const Message& message, int sender, std::uint32_t tag, const View& target);
// The check alone, for messages that are not in memory yet.
void require_fit(ElementType type, std::uint64_t bytes, int sender, std::uint32_t tag, const View& target);

}  // namespace muster::comm
