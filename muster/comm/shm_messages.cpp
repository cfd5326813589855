// All progress is made by whoever waits, on all rings at once: the message that somebody waits for may stand behind one
// that nobody has asked for yet. What the mailbox cannot hold stays in its ring and makes its sender wait.
#include "muster/comm/shm_messages.h"

#include <algorithm>

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/comm/copy.h"

namespace muster::comm {
namespace {

// What the mailbox may hold: beyond it messages that nobody asked for stay in their ring, and their sender waits.
constexpr std::size_t kMailboxBytes = std::size_t{256} << 20;
constexpr std::uint32_t kHeaderMark = 0x4d53474d;

}  // namespace

struct ShmMessages::Header {
  std::uint32_t mark = kHeaderMark;
  std::uint32_t tag = 0;
  std::uint64_t bytes = 0;
  ElementType type = ElementType::kUint8;
  std::uint8_t unused[7] = {};
};

struct ShmMessages::Outgoing {
  Header header;
  std::span<const std::byte> data;
  std::size_t sent = 0;
  bool started = false;
  bool done = false;
};

struct ShmMessages::Expected {
  std::uint32_t tag = 0;
  View target;
  bool started = false;
  bool done = false;
  std::optional<Error> error;  // of this receive alone: a message that does not fit
};

// The message that is being taken from a ring.
struct ShmMessages::Incoming {
  Header header;
  std::size_t taken = 0;
  std::shared_ptr<Expected> receiver;  // null: into `held`
  Message held;
};

class ShmMessages::SendTransfer final : public Transfer {
 public:
  SendTransfer(std::shared_ptr<ShmMessages> messages, int peer, std::shared_ptr<Outgoing> outgoing)
      : messages_(std::move(messages)), peer_(peer), outgoing_(std::move(outgoing)) {}
  ~SendTransfer() override { messages_->cancel(peer_, outgoing_); }

  bool test() override {
    if (!outgoing_->done) {
      messages_->board_.throw_if_failed();
      messages_->progress();
    }
    return outgoing_->done;
  }
  void wait(const Deadline& deadline) override {
    const auto doing = [&] {
      return fmt::format("taken a message of {} bytes with tag {} from rank {}", outgoing_->data.size(),
                         outgoing_->header.tag, messages_->self_);
    };
    // Woken by anybody: somebody else's message may have to be taken in before the peer can take this one.
    if (!test())
      wait_or_fail(
          messages_->board_, peer_, kAnyRank, [&] { return test(); }, deadline, doing);
  }

 private:
  std::shared_ptr<ShmMessages> messages_;
  int peer_;
  std::shared_ptr<Outgoing> outgoing_;
};

class ShmMessages::ReceiveTransfer final : public Transfer {
 public:
  ReceiveTransfer(std::shared_ptr<ShmMessages> messages, int peer, std::shared_ptr<Expected> expected)
      : messages_(std::move(messages)), peer_(peer), expected_(std::move(expected)) {}
  ~ReceiveTransfer() override { messages_->cancel(peer_, expected_); }

  bool test() override {
    if (!expected_->done) messages_->progress();
    if (expected_->error) throw *expected_->error;
    if (!expected_->done) messages_->board_.throw_if_failed();
    return expected_->done;
  }
  void wait(const Deadline& deadline) override {
    const auto doing = [&] {
      return fmt::format("sent rank {} a message of {} {} with tag {}", messages_->self_, expected_->target.count,
                         to_string(expected_->target.type), expected_->tag);
    };
    if (!test())
      wait_or_fail(
          messages_->board_, peer_, kAnyRank, [&] { return test(); }, deadline, doing);
  }

 private:
  std::shared_ptr<ShmMessages> messages_;
  int peer_;
  std::shared_ptr<Expected> expected_;
};

ShmMessages::ShmMessages(const ShmLayout& layout, Board& board) : layout_(layout), board_(board), self_(board.self()) {
  const auto ranks = static_cast<std::size_t>(board.ranks());
  outgoing_.resize(ranks);
  expected_.resize(ranks);
  incoming_.resize(ranks);
}

ShmMessages::~ShmMessages() = default;

std::unique_ptr<Transfer> ShmMessages::send(int peer, std::uint32_t tag, ConstView data) {
  auto outgoing = std::make_shared<Outgoing>();
  outgoing->header.tag = tag;
  outgoing->header.type = data.type;
  outgoing->data = data.bytes();
  outgoing->header.bytes = outgoing->data.size();
  if (peer == self_) {
    offer(peer, tag, {data.type, {outgoing->data.begin(), outgoing->data.end()}});
    outgoing->done = true;
  } else {
    outgoing_[static_cast<std::size_t>(peer)].push_back(outgoing);
    progress();
  }
  return std::make_unique<SendTransfer>(shared_from_this(), peer, std::move(outgoing));
}

std::unique_ptr<Transfer> ShmMessages::receive(int peer, std::uint32_t tag, View data) {
  auto expected = std::make_shared<Expected>();
  expected->tag = tag;
  expected->target = data;
  // What is in the mailbox is older than anything in the ring.
  if (const std::optional<Message> message = mailbox_.take(peer, tag)) {
    accept(*expected, *message, peer);
  } else {
    expected_[static_cast<std::size_t>(peer)].push_back(expected);
    progress();
  }
  return std::make_unique<ReceiveTransfer>(shared_from_this(), peer, std::move(expected));
}

std::size_t ShmMessages::room(int peer) const {
  const Channel& channel = layout_.channel(self_, peer);
  return layout_.sizes().channel_bytes -
         static_cast<std::size_t>(channel.written.load(std::memory_order_relaxed) - channel.read.load());
}

std::size_t ShmMessages::available(int peer) const {
  const Channel& channel = layout_.channel(peer, self_);
  return static_cast<std::size_t>(channel.written.load() - channel.read.load(std::memory_order_relaxed));
}

// REQUIRES: room for them.
void ShmMessages::write(int peer, std::span<const std::byte> bytes) {
  Channel& channel = layout_.channel(self_, peer);
  const std::span<std::byte> ring = layout_.channel_data(self_, peer);
  const std::uint64_t position = channel.written.load(std::memory_order_relaxed);
  const std::size_t at = position % ring.size();
  const std::size_t first = std::min(bytes.size(), ring.size() - at);
  copy_bytes(ring.data() + at, bytes.data(), first);
  copy_bytes(ring.data(), bytes.data() + first, bytes.size() - first);
  channel.written.store(position + bytes.size());
}

// REQUIRES, of both: that many available.
void ShmMessages::peek(int peer, std::span<std::byte> bytes) const {
  const std::span<std::byte> ring = layout_.channel_data(peer, self_);
  const std::size_t at = layout_.channel(peer, self_).read.load(std::memory_order_relaxed) % ring.size();
  const std::size_t first = std::min(bytes.size(), ring.size() - at);
  copy_bytes(bytes.data(), ring.data() + at, first);
  copy_bytes(bytes.data() + first, ring.data(), bytes.size() - first);
}

void ShmMessages::skip(int peer, std::size_t bytes) {
  Channel& channel = layout_.channel(peer, self_);
  channel.read.store(channel.read.load(std::memory_order_relaxed) + bytes);
}

bool ShmMessages::push(int peer) {
  auto& queue = outgoing_[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (!queue.empty()) {
    Outgoing& message = *queue.front();
    if (!message.started) {
      if (room(peer) < sizeof(Header)) break;
      MUSTER_FAILPOINT("shm.message.before_write");
      write(peer, std::as_bytes(std::span(&message.header, 1)));
      message.started = moved = true;
      MUSTER_FAILPOINT("shm.message.after_header");
    }
    const std::size_t count = std::min(room(peer), message.data.size() - message.sent);
    if (count > 0) {
      write(peer, message.data.subspan(message.sent, count));
      message.sent += count;
      moved = true;
    }
    if (message.sent < message.data.size()) break;
    message.done = true;
    MUSTER_FAILPOINT("shm.message.after_write");
    queue.pop_front();
  }
  return moved;
}

std::shared_ptr<ShmMessages::Expected> ShmMessages::find_expected(int peer, std::uint32_t tag) {
  const auto& expected = expected_[static_cast<std::size_t>(peer)];
  const auto found = std::find_if(expected.begin(), expected.end(),
                                  [&](const auto& candidate) { return candidate->tag == tag && !candidate->started; });
  return found == expected.end() ? nullptr : *found;
}

void ShmMessages::accept(Expected& expected, const Message& message, int peer) {
  expected.started = true;
  try {
    deliver(message, peer, expected.tag, expected.target);
    expected.done = true;
  } catch (const Error& error) {
    expected.error = error;
  }
}

void ShmMessages::offer(int peer, std::uint32_t tag, Message message) {
  if (const std::shared_ptr<Expected> expected = find_expected(peer, tag)) {
    accept(*expected, message, peer);
    expected_[static_cast<std::size_t>(peer)].remove(expected);
  } else {
    mailbox_.put(peer, tag, std::move(message));
  }
}

// Reads a header and finds out where its message goes. False when none is there, or nowhere to put it.
bool ShmMessages::begin_message(int peer) {
  if (available(peer) < sizeof(Header)) return false;
  auto incoming = std::make_unique<Incoming>();
  Header& header = incoming->header;
  peek(peer, std::as_writable_bytes(std::span(&header, 1)));
  if (header.mark != kHeaderMark || size_of(header.type) == 0) {
    board_.fail(peer, ErrorKind::kDamaged, fmt::format("rank {} sent what is not a message", peer));
    board_.throw_if_failed();
  }
  if (const std::shared_ptr<Expected> expected = find_expected(peer, header.tag)) {
    require_fit(header.type, header.bytes, peer, header.tag, expected->target);
    expected->started = true;
    incoming->receiver = expected;
  } else {
    if (mailbox_.held_bytes() + header.bytes > kMailboxBytes) return false;
    incoming->held.type = header.type;
    incoming->held.bytes.resize(header.bytes);
  }
  skip(peer, sizeof(Header));
  incoming_[static_cast<std::size_t>(peer)] = std::move(incoming);
  return true;
}

void ShmMessages::end_message(int peer) {
  Incoming& incoming = *incoming_[static_cast<std::size_t>(peer)];
  if (incoming.receiver) {
    incoming.receiver->done = true;
    expected_[static_cast<std::size_t>(peer)].remove(incoming.receiver);
  } else {
    offer(peer, incoming.header.tag, std::move(incoming.held));
  }
  incoming_[static_cast<std::size_t>(peer)].reset();
}

bool ShmMessages::pull(int peer) {
  auto& slot = incoming_[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (slot || begin_message(peer)) {
    Incoming& incoming = *slot;
    const std::size_t count =
        std::min(available(peer), static_cast<std::size_t>(incoming.header.bytes) - incoming.taken);
    if (count > 0) {
      std::byte* const target =
          incoming.receiver ? static_cast<std::byte*>(incoming.receiver->target.data) : incoming.held.bytes.data();
      peek(peer, {target + incoming.taken, count});
      skip(peer, count);
      incoming.taken += count;
    }
    moved = true;
    if (incoming.taken < incoming.header.bytes) return count > 0;
    end_message(peer);
  }
  return moved;
}

void ShmMessages::progress() {
  bool moved = false;
  for (int peer = 0; peer < board_.ranks(); ++peer) {
    if (peer == self_) continue;
    moved |= push(peer);
    moved |= pull(peer);
  }
  if (moved) board_.announce();
}

void ShmMessages::cancel(int peer, const std::shared_ptr<Outgoing>& outgoing) {
  if (outgoing->done) return;
  auto& queue = outgoing_[static_cast<std::size_t>(peer)];
  const auto found = std::find(queue.begin(), queue.end(), outgoing);
  if (found != queue.end()) queue.erase(found);
  // The rest of a message that was begun would be taken for the next message's header.
  if (outgoing->started)
    board_.fail(self_, ErrorKind::kMismatch,
                fmt::format("rank {} gave up a message to rank {} that was half sent", self_, peer));
}

void ShmMessages::cancel(int peer, const std::shared_ptr<Expected>& expected) {
  if (expected->done) return;
  expected_[static_cast<std::size_t>(peer)].remove(expected);
  const auto& incoming = incoming_[static_cast<std::size_t>(peer)];
  if (incoming && incoming->receiver == expected)
    board_.fail(self_, ErrorKind::kMismatch,
                fmt::format("rank {} gave up a message of rank {} that was half received", self_, peer));
}

}  // namespace muster::comm
