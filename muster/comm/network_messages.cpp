// A message is its header, in a slot of its own, and then its elements in a slot that depends on tag and size: a
// receive of another size never meets it, and both ends say so instead of hanging.
#include "muster/comm/network_messages.h"

#include <limits>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::comm {
namespace {

constexpr std::uint64_t kHeaderSlots = std::uint64_t{1} << 62;
constexpr std::uint64_t kMessageSlots = kHeaderSlots + (std::uint64_t{1} << 61);

// On the wire, before the elements and in a slot of its own.
struct Header {
  std::uint64_t count = 0;
  std::uint32_t tag = 0;
  std::uint8_t type = 0;
  std::uint8_t unused[3] = {};
};
static_assert(sizeof(Header) == 16);

Header header_of(std::uint32_t tag, const ConstView& data) {
  return {data.count, tag, static_cast<std::uint8_t>(data.type), {}};
}

std::uint64_t header_slot(std::uint32_t tag) {
  return kHeaderSlots + tag;
}

// The same for a send and a receive that fit, and for no others: a message never meets a receive of another size.
std::uint64_t message_slot(const Header& header) {
  std::uint64_t bits = header.count * 0x9e3779b97f4a7c15U + (std::uint64_t{header.type} << 32) + header.tag;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return kMessageSlots + ((bits ^ (bits >> 31)) & ((std::uint64_t{1} << 61) - 1));
}

class SendTransfer final : public Transfer {
 public:
  SendTransfer(std::shared_ptr<Transport> transport, int peer, std::uint32_t tag, const ConstView& data)
      : transport_(std::move(transport)), header_(header_of(tag, data)) {
    header_transfer_ = transport_->send(peer, header_slot(tag), std::as_bytes(std::span(&header_, 1)));
    message_transfer_ = transport_->send(peer, message_slot(header_), data.bytes());
  }

  bool test() override { return header_transfer_->test() && message_transfer_->test(); }
  void wait(const Deadline& deadline) override {
    header_transfer_->wait(deadline);
    message_transfer_->wait(deadline);
  }

 private:
  std::shared_ptr<Transport> transport_;
  const Header header_;
  std::unique_ptr<Transfer> header_transfer_;
  std::unique_ptr<Transfer> message_transfer_;
};

class ReceiveTransfer final : public Transfer {
 public:
  ReceiveTransfer(std::shared_ptr<Transport> transport, int peer, std::uint32_t tag, const View& data)
      : transport_(std::move(transport)), peer_(peer), tag_(tag), data_(data) {
    const Header expected = header_of(tag, data);
    header_transfer_ = transport_->receive(peer, header_slot(tag), std::as_writable_bytes(std::span(&header_, 1)));
    message_transfer_ = transport_->receive(peer, message_slot(expected), data.bytes());
  }

  bool test() override {
    if (!header_transfer_->test()) return false;
    require_expected();
    return message_transfer_->test();
  }
  void wait(const Deadline& deadline) override {
    header_transfer_->wait(deadline);
    require_expected();
    message_transfer_->wait(deadline);
  }

 private:
  void require_expected() {
    if (header_.count == data_.count && header_.type == static_cast<std::uint8_t>(data_.type)) return;
    const bool plausible = header_.type <= static_cast<std::uint8_t>(ElementType::kUint8) &&
                           header_.count <= std::numeric_limits<std::uint64_t>::max() / 8;
    try {
      if (!plausible)
        throw Error(ErrorKind::kDamaged, fmt::format("receive: rank {} sent something that is no message", peer_));
      const auto type = static_cast<ElementType>(header_.type);
      require_fit(type, header_.count * size_of(type), peer_, tag_, data_);
    } catch (const Error& error) {
      // The sender waits for a receive that will never be.
      transport_->abort(transport_->rank(), error.message());
      throw;
    }
  }

  std::shared_ptr<Transport> transport_;
  const int peer_;
  const std::uint32_t tag_;
  const View data_;
  Header header_;
  std::unique_ptr<Transfer> header_transfer_;
  std::unique_ptr<Transfer> message_transfer_;
};

class OwnReceive final : public Transfer {
 public:
  OwnReceive(std::shared_ptr<Mailbox> mailbox, int rank, std::uint32_t tag, const View& data)
      : mailbox_(std::move(mailbox)), rank_(rank), tag_(tag), data_(data) {}

  bool test() override {
    if (done_) return true;
    const std::optional<Message> message = mailbox_->take(rank_, tag_);
    if (!message) return false;
    deliver(*message, rank_, tag_, data_);
    return done_ = true;
  }
  void wait(const Deadline&) override {
    // Nobody else could send it while this rank waits.
    if (!test())
      throw Error(ErrorKind::kTimeout, fmt::format("receive: rank {} has sent itself nothing with tag {}", rank_, tag_),
                  {}, "Start the send before waiting for it.");
  }

 private:
  std::shared_ptr<Mailbox> mailbox_;
  const int rank_;
  const std::uint32_t tag_;
  const View data_;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Transfer> send_message(const std::shared_ptr<Transport>& transport, int peer, std::uint32_t tag,
                                       ConstView data) {
  return std::make_unique<SendTransfer>(transport, peer, tag, data);
}

std::unique_ptr<Transfer> receive_message(const std::shared_ptr<Transport>& transport, int peer, std::uint32_t tag,
                                          View data) {
  return std::make_unique<ReceiveTransfer>(transport, peer, tag, data);
}

std::unique_ptr<Transfer> send_to_itself(Mailbox& mailbox, int rank, std::uint32_t tag, ConstView data) {
  const std::span<const std::byte> bytes = data.bytes();
  mailbox.put(rank, tag, {data.type, {bytes.begin(), bytes.end()}});
  return std::make_unique<FinishedTransfer>();
}

std::unique_ptr<Transfer> receive_from_itself(std::shared_ptr<Mailbox> mailbox, int rank, std::uint32_t tag,
                                              View data) {
  return std::make_unique<OwnReceive>(std::move(mailbox), rank, tag, data);
}

}  // namespace muster::comm
