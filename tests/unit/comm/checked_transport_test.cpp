// Messages of which a bit flips on its way, below the checksums and above Gloo: nobody may be given one.
#include "muster/comm/checked_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/network_backend.h"
#include "support/collective_checks.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using std::chrono::seconds;
using testing::run_ranks;

// The message `bytes` arrives with its last bit the other way.
class Flipped final : public Transfer {
 public:
  Flipped(std::unique_ptr<Transfer> inner, std::span<std::byte> bytes) : inner_(std::move(inner)), bytes_(bytes) {}
  bool test() override {
    if (!inner_->test()) return false;
    flip();
    return true;
  }
  void wait(const Deadline& deadline) override {
    inner_->wait(deadline);
    flip();
  }

 private:
  void flip() {
    if (!std::exchange(flipped_, true)) bytes_.back() ^= std::byte{1};
  }
  std::unique_ptr<Transfer> inner_;
  std::span<std::byte> bytes_;
  bool flipped_ = false;
};

// Damages the `which`-th message that this rank expects, counted from 0.
class DamagingTransport final : public Transport {
 public:
  DamagingTransport(std::unique_ptr<Transport> inner, int which) : inner_(std::move(inner)), left_(which) {}

  std::string_view name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<Transfer> send(int peer, std::uint64_t slot, std::span<const std::byte> bytes) override {
    return inner_->send(peer, slot, bytes);
  }
  std::unique_ptr<Transfer> receive(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    auto transfer = inner_->receive(peer, slot, bytes);
    if (left_-- != 0) return transfer;
    return std::make_unique<Flipped>(std::move(transfer), bytes);
  }
  std::unique_ptr<Transport> split(const std::vector<int>& members, const std::string& name,
                                   const Deadline& deadline) override {
    return inner_->split(members, name, deadline);
  }
  void abort(int rank, const std::string& reason) override { inner_->abort(rank, reason); }

 private:
  std::unique_ptr<Transport> inner_;
  int left_;
};

class CheckedTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  }

  // Rank 0 gets its `damaged`-th message damaged; -1: none.
  std::unique_ptr<Transport> make(int rank, int size, int damaged) {
    GlooOptions options;
    options.rank = rank;
    options.size = size;
    options.store = store_;
    std::unique_ptr<Transport> transport = make_gloo_transport(options);
    if (rank == 0 && damaged >= 0) transport = std::make_unique<DamagingTransport>(std::move(transport), damaged);
    return with_checksums(std::move(transport));
  }

  std::shared_ptr<Store> store_ = make_memory_store();
};

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(testing::scramble(i));
  return data;
}

// Short ones travel with their checksum, long ones before it.
const std::vector<std::size_t> kLengths{1, 16, 16 * 1024, 16 * 1024 + 1, 1 << 20};

TEST_F(CheckedTransportTest, WholeMessagesArriveInTheOrderOfTheirSlot) {
  const Deadline deadline = Deadline::after(seconds(30));
  run_ranks(2, [&](int rank) {
    const auto transport = make(rank, 2, -1);
    std::vector<std::unique_ptr<Transfer>> transfers;
    std::vector<std::vector<std::byte>> data;
    for (const std::size_t bytes : kLengths)
      data.push_back(rank == 1 ? pattern(bytes) : std::vector<std::byte>(bytes));
    for (std::vector<std::byte>& message : data)
      transfers.push_back(rank == 1 ? transport->send(0, 7, message) : transport->receive(1, 7, message));
    for (const auto& transfer : transfers) {
      transfer->wait(deadline);
      EXPECT_TRUE(transfer->test());
    }
    for (std::size_t i = 0; i < data.size(); ++i)
      EXPECT_EQ(data[i], pattern(kLengths[i])) << kLengths[i];
    transport->send(1 - rank, 8, std::span(data[0]).first(0))->wait(deadline);  // of nothing
    transport->receive(1 - rank, 8, {})->wait(deadline);
  });
}

TEST_F(CheckedTransportTest, AFlippedBitFailsTheReceiveAndThenEverybody) {
  const Deadline deadline = Deadline::after(seconds(30));
  for (const std::size_t bytes : kLengths) {
    for (const int damaged : {0, 1}) {
      if (damaged == 1 && bytes <= 16 * 1024) continue;  // its checksum came along
      store_ = make_memory_store();
      run_ranks(2, [&](int rank) {
        const auto transport = make(rank, 2, damaged);
        std::vector<std::byte> message = rank == 1 ? pattern(bytes) : std::vector<std::byte>(bytes);
        std::optional<Error> error;
        try {
          if (rank == 0) transport->receive(1, 7, message)->wait(deadline);
          if (rank == 1) {
            transport->send(0, 7, message)->wait(deadline);
            transport->receive(0, 9, message)->wait(deadline);  // which nobody sends
          }
        } catch (const Error& caught) {
          error = caught;
        }
        ASSERT_TRUE(error.has_value()) << "rank " << rank << " noticed nothing, " << bytes << " bytes";
        EXPECT_EQ(error->kind(), ErrorKind::kPeerLost) << error->what();
        if (rank != 0) return;
        EXPECT_NE(error->message().find("rank 1 sent"), std::string::npos) << error->what();
        if (bytes > 16 * 1024) return;
        EXPECT_EQ(message, std::vector<std::byte>(bytes)) << "it was given to the receiver";
      });
    }
  }
}

// check_collectives() compares each result with a serial one: it fails the test where a damaged byte became part of it.
TEST_F(CheckedTransportTest, NoCollectiveUsesADamagedMessage) {
  constexpr int kRanks = 3;
  for (const int damaged : {0, 1, 2, 5, 11, 24, 101, 1002}) {
    store_ = make_memory_store();
    run_ranks(kRanks, [&](int rank) {
      try {
        testing::check_collectives(Group(std::make_shared<NetworkBackend>(make(rank, kRanks, damaged)), seconds(30)),
                                   20001);
        ADD_FAILURE() << "rank " << rank << " came to the end, message " << damaged;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
      }
    });
  }
}

}  // namespace
}  // namespace muster::comm
