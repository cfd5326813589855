// A short message is copied to stand beside its checksum, and both are sent as one. The checksum of a long one follows
// it in the same slot, where messages keep their order.
#include "muster/comm/checked_transport.h"

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/failpoint.h"

namespace muster::comm {
namespace {

// Copied within the time that a message of its own would take.
constexpr std::size_t kMostCopied = std::size_t{16} * 1024;

using Checksum = std::uint32_t;

class CheckedSend final : public Transfer {
 public:
  CheckedSend(Transport& transport, int peer, std::uint64_t slot, std::span<const std::byte> bytes)
      : checksum_(crc32c(bytes)) {
    const auto checksum = std::as_bytes(std::span(&checksum_, 1));
    if (bytes.size() <= kMostCopied) {
      both_.reserve(bytes.size() + checksum.size());
      both_.assign(bytes.begin(), bytes.end());
      both_.insert(both_.end(), checksum.begin(), checksum.end());
      data_ = transport.send(peer, slot, both_);
    } else {
      data_ = transport.send(peer, slot, bytes);
      check_ = transport.send(peer, slot, checksum);
    }
  }

  bool test() override { return data_->test() && (!check_ || check_->test()); }
  void wait(const Deadline& deadline) override {
    data_->wait(deadline);
    if (check_) check_->wait(deadline);
  }

 private:
  // Above the transfers, which are cancelled before it goes.
  const Checksum checksum_;
  std::vector<std::byte> both_;  // of a short message
  std::unique_ptr<Transfer> data_;
  std::unique_ptr<Transfer> check_;  // of a long one
};

class CheckedReceive final : public Transfer {
 public:
  CheckedReceive(std::shared_ptr<Transport> transport, int peer, std::uint64_t slot, std::span<std::byte> bytes)
      : transport_(std::move(transport)), peer_(peer), bytes_(bytes) {
    if (bytes.size() <= kMostCopied) {
      both_.resize(bytes.size() + sizeof(checksum_));
      data_ = transport_->receive(peer, slot, both_);
    } else {
      data_ = transport_->receive(peer, slot, bytes);
      check_ = transport_->receive(peer, slot, std::as_writable_bytes(std::span(&checksum_, 1)));
    }
  }

  bool test() override {
    if (done_) return true;
    if (!data_->test() || (check_ && !check_->test())) return false;
    take();
    return true;
  }
  void wait(const Deadline& deadline) override {
    if (done_) return;
    data_->wait(deadline);
    if (check_) check_->wait(deadline);
    take();
  }

 private:
  void take() {
    std::span<const std::byte> arrived = bytes_;
    if (!check_) {
      arrived = std::span(both_).first(bytes_.size());
      std::memcpy(&checksum_, both_.data() + bytes_.size(), sizeof(checksum_));
    }
    if (!is_whole(arrived)) fail();
    if (!check_) std::memcpy(bytes_.data(), arrived.data(), arrived.size());
    done_ = true;
  }

  bool is_whole(std::span<const std::byte> arrived) const {
    try {
      MUSTER_FAILPOINT("comm.message.arrived");
    } catch (const Error&) {
      return false;  // the test's word for a bit that has flipped
    }
    return crc32c(arrived) == checksum_;
  }

  [[noreturn]] void fail() {
    const std::string reason = fmt::format(
        "rank {} sent {} bytes that have arrived damaged: their checksum is another one", peer_, bytes_.size());
    transport_->abort(transport_->rank(), reason);
    throw Error(ErrorKind::kPeerLost, reason, {},
                "Look at the network between the two hosts, and at their memory, if this comes again.");
  }

  const std::shared_ptr<Transport> transport_;
  const int peer_;
  const std::span<std::byte> bytes_;
  Checksum checksum_ = 0;
  std::vector<std::byte> both_;  // of a short message
  std::unique_ptr<Transfer> data_;
  std::unique_ptr<Transfer> check_;  // of a long one
  bool done_ = false;
};

class CheckedTransport final : public Transport {
 public:
  explicit CheckedTransport(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  std::string_view name() const override { return transport_->name(); }
  int rank() const override { return transport_->rank(); }
  int size() const override { return transport_->size(); }

  std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) override {
    if (bytes.empty()) return std::make_unique<FinishedTransfer>();
    return std::make_unique<CheckedSend>(*transport_, peer, slot, bytes);
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    if (bytes.empty()) return std::make_unique<FinishedTransfer>();
    return std::make_unique<CheckedReceive>(transport_, peer, slot, bytes);
  }

  std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name,
                                   const Deadline& deadline) override {
    return with_checksums(transport_->split(members, name, deadline));
  }
  void abort(int rank, const std::string& reason) override { transport_->abort(rank, reason); }

 private:
  const std::shared_ptr<Transport> transport_;  // receives share it
};

}  // namespace

std::unique_ptr<Transport> with_checksums(std::unique_ptr<Transport> transport) {
  return std::make_unique<CheckedTransport>(std::move(transport));
}

}  // namespace muster::comm
