// Messages between two ranks of a host: tagged, in order, non-blocking. The point-to-point half of the shm backend.
//
// Each ordered pair of ranks has a ring of bytes. A message is a header and its bytes; a sender writes as much as fits
// and goes on when the receiver has made room. A receiver takes from its rings whatever is there: into the receive that
// asked for it, or, when nobody has yet, into a mailbox, so that messages of other tags pass and two ranks that send to
// each other cannot block each other. Progress is made inside test() and wait() of any transfer; there is no thread.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "muster/comm/backend.h"
#include "muster/comm/board.h"
#include "muster/comm/mailbox.h"
#include "muster/comm/shm_layout.h"

namespace muster::comm {

// As Board::wait, but a deadline that passes is the failure of all: they would only wait for this rank next.
template <typename Ready>
void wait_or_fail(Board& board, int peer, int woken_by, const Ready& ready, const Deadline& deadline,
                  const std::function<std::string()>& doing) {
  try {
    board.wait(peer, woken_by, ready, deadline, doing);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) board.fail(peer, error.kind(), error.message());
    throw;
  }
}

class ShmMessages : public std::enable_shared_from_this<ShmMessages> {
 public:
  // Both must outlive it.
  ShmMessages(const ShmLayout& layout, Board& board);
  ~ShmMessages();

  std::unique_ptr<Transfer> send(int peer, std::uint32_t tag, ConstView data);
  std::unique_ptr<Transfer> receive(int peer, std::uint32_t tag, View data);

 private:
  struct Header;
  struct Outgoing;
  struct Expected;
  struct Incoming;
  class SendTransfer;
  class ReceiveTransfer;

  // Moves all that can be moved without waiting, and tells the peers.
  void progress();
  bool push(int peer);
  bool pull(int peer);
  bool begin_message(int peer);
  void end_message(int peer);
  std::shared_ptr<Expected> find_expected(int peer, std::uint32_t tag);
  void accept(Expected& expected, const Message& message, int peer);
  // A whole message: to who asked for it, or into the mailbox.
  void offer(int peer, std::uint32_t tag, Message message);
  void write(int peer, std::span<const std::byte> bytes);
  void peek(int peer, std::span<std::byte> bytes) const;
  void skip(int peer, std::size_t bytes);
  std::size_t room(int peer) const;
  std::size_t available(int peer) const;
  void cancel(int peer, const std::shared_ptr<Outgoing>& outgoing);
  void cancel(int peer, const std::shared_ptr<Expected>& expected);

  const ShmLayout& layout_;
  Board& board_;
  int self_;
  Mailbox mailbox_;
  // By peer.
  std::vector<std::deque<std::shared_ptr<Outgoing>>> outgoing_;
  std::vector<std::list<std::shared_ptr<Expected>>> expected_;
  std::vector<std::unique_ptr<Incoming>> incoming_;
};

}  // namespace muster::comm
