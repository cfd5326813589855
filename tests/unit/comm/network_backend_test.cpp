// Our collectives over Gloo on loopback, ranks as threads: the whole matrix against the serial reference, long arrays
// that go in segments, messages, splits, and ranks that disagree.
#include "muster/comm/network_backend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/checked_transport.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "support/collective_checks.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using std::chrono::seconds;
using testing::run_ranks;

class NetworkBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no Gloo";
  }

  Group make_group(int rank, int size, std::chrono::nanoseconds timeout = seconds(20)) {
    GlooOptions options;
    options.rank = rank;
    options.size = size;
    options.store = store_;
    return Group(std::make_shared<NetworkBackend>(with_checksums(make_gloo_transport(options))), timeout);
  }

  std::shared_ptr<Store> store_ = make_memory_store();
};

class NetworkMatrix : public NetworkBackendTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, NetworkMatrix, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(NetworkMatrix, GivesTheBitsOfTheSerialReference) {
  run_ranks(GetParam(), [&](int rank) { testing::check_collectives(make_group(rank, GetParam()), 20001); });
}

TEST_F(NetworkBackendTest, ReducesLongArraysInSegments) {
  // Two and a bit segments of all_reduce, more of reduce_scatter, with slices of different lengths.
  const std::size_t count = NetworkBackend::kScratchBytes / sizeof(float) + 12347;
  constexpr int kRanks = 3;
  run_ranks(kRanks, [&](int rank) {
    Group group = make_group(rank, kRanks);
    std::vector<float> data = testing::values_of<float>(rank, 0, count);
    std::vector<float> output(count);
    group.all_reduce(std::span(std::as_const(data)), std::span(output));
    group.all_reduce(std::span(data));
    EXPECT_EQ(data, output);
    for (std::size_t i = 0; i < count; i += i < count - 100 ? 97 : 1)
      ASSERT_EQ(data[i], testing::reduced_value<float>(Reduction::kSum, kRanks, i)) << i;

    const std::size_t part = count / kRanks;
    data = testing::values_of<float>(rank, 0, part * kRanks);
    const auto own = std::span(data).subspan(static_cast<std::size_t>(rank) * part, part);
    group.reduce_scatter(std::span(data), own, Reduction::kMax);
    for (std::size_t i = 0; i < part; i += i < part - 100 ? 97 : 1)
      ASSERT_EQ(own[i],
                testing::reduced_value<float>(Reduction::kMax, kRanks, static_cast<std::size_t>(rank) * part + i));
  });
}

TEST_F(NetworkBackendTest, BroadcastsLongArraysDownTheTree) {
  const std::size_t count = 2 * NetworkBackend::kBroadcastSegmentBytes + 5;
  constexpr int kRanks = 6;
  run_ranks(kRanks, [&](int rank) {
    Group group = make_group(rank, kRanks);
    for (int root = 0; root < kRanks; ++root) {
      std::vector<std::uint8_t> data(count, static_cast<std::uint8_t>(rank));
      if (rank == root) data = testing::values_of<std::uint8_t>(root, 0, count);
      group.broadcast(std::span(data), root);
      testing::expect_same_bits(data, testing::values_of<std::uint8_t>(root, 0, count), "broadcast");
    }
  });
}

TEST_F(NetworkBackendTest, SplitsIntoGroupsThatOutliveTheirParent) {
  constexpr int kRanks = 4;
  run_ranks(kRanks, [&](int rank) {
    Group half;
    Group alone;
    {
      Group group = make_group(rank, kRanks);
      half = group.split(rank % 2, -rank);
      alone = group.split(rank);
    }
    ASSERT_EQ(half.size(), 2);
    EXPECT_EQ(half.rank(), rank < 2 ? 1 : 0);  // by descending rank
    EXPECT_EQ(half.backend(), "gloo");
    std::vector<std::int32_t> data{rank};
    half.all_reduce(std::span(data));
    EXPECT_EQ(data[0], rank % 2 == 0 ? 2 : 4);
    EXPECT_EQ(alone.size(), 1);
    Group quarter = half.split(half.rank());
    EXPECT_EQ(quarter.size(), 1);
  });
}

TEST_F(NetworkBackendTest, MovesMessagesWhileRanksAreInOtherCalls) {
  // Rank 0 sends before its collective, rank 1 asks for the answer after its own: nobody helps but the transport.
  run_ranks(2, [&](int rank) {
    Group group = make_group(rank, 2);
    const std::vector<double> given = testing::values_of<double>(0, 0, 300000);
    std::vector<double> got(given.size());
    std::vector<float> sum{1.0F};
    if (rank == 0) {
      group.send(std::span(given), 1, 9);
      group.all_reduce(std::span(sum));
    } else {
      Pending receive = group.start_receive(std::span(got), 0, 9);
      group.all_reduce(std::span(sum));
      while (!receive.test()) {
      }
      EXPECT_EQ(got, given);
    }
    EXPECT_EQ(sum[0], 2.0F);
  });
}

TEST_F(NetworkBackendTest, KeepsMessagesOfATagInOrderWhateverTheirLength) {
  run_ranks(3, [&](int rank) {
    Group group = make_group(rank, 3);
    const std::vector<std::size_t> lengths{5, 1, 0, 5, 4000, 1, 5};
    const int next = (rank + 1) % 3;
    const int before = (rank + 2) % 3;
    std::vector<std::vector<std::int32_t>> given;
    std::vector<std::vector<std::int32_t>> got;
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      given.emplace_back(lengths[i], static_cast<std::int32_t>(i) + 100 * rank);
      got.emplace_back(lengths[i]);
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      pending.push_back(group.start_send(std::span(given[i]), next, 4));
      pending.push_back(group.start_receive(std::span(got[i]), before, 4));
    }
    while (!pending.empty()) {
      pending.back().wait();  // the last first
      pending.pop_back();
    }
    for (std::size_t i = 0; i < lengths.size(); ++i)
      EXPECT_EQ(got[i], std::vector<std::int32_t>(lengths[i], static_cast<std::int32_t>(i) + 100 * before));
    const std::vector<float> own{1.0F, 2.0F};
    std::vector<float> back(2);
    group.send(std::span(own), rank, 4);
    group.receive(std::span(back), rank, 4);
    EXPECT_EQ(back, own);
  });
}

// Each rank makes its own call; every one must be told what all of them called.
void expect_mismatch(Group& group, const std::function<void(Group&)>& call, const std::vector<std::string>& parts) {
  try {
    call(group);
    ADD_FAILURE() << "rank " << group.rank() << " noticed nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  // Sticky.
  EXPECT_THROW(group.barrier(), Error);
}

TEST_F(NetworkBackendTest, TellsEveryRankWhoCalledWhat) {
  using Calls = std::vector<std::function<void(Group&)>>;
  std::vector<float> unused(64);
  const auto reduce = [](std::size_t count, Reduction reduction = Reduction::kSum) {
    return [count, reduction](Group& group) {
      std::vector<float> data(count);
      group.all_reduce(std::span(data), reduction);
    };
  };
  const std::vector<std::pair<Calls, std::vector<std::string>>> cases{
      {{reduce(5), reduce(5), [](Group& group) { group.barrier(); }},
       {"rank 0: all_reduce #1 of 5 float, sum", "rank 1: all_reduce #1 of 5 float", "rank 2: barrier #1"}},
      {{reduce(100000), reduce(100001), reduce(100000)},
       {"rank 0: all_reduce #1 of 100000", "rank 1: all_reduce #1 of 100001", "rank 2: all_reduce #1 of 100000"}},
      {{reduce(7), reduce(7, Reduction::kMax), reduce(7)},
       {"rank 1: all_reduce #1 of 7 float, max", "rank 2: all_red"}},
      {{reduce(7), reduce(7),
        [](Group& group) {
          std::vector<std::int32_t> data(7);
          group.all_reduce(std::span(data));
        }},
       {"rank 2: all_reduce #1 of 7 int32"}},
      {{[](Group& group) {
          std::vector<float> data(9);
          group.broadcast(std::span(data), 0);
        },
        [](Group& group) {
          std::vector<float> data(9);
          group.broadcast(std::span(data), 1);
        },
        [](Group& group) {
          std::vector<float> data(9);
          group.broadcast(std::span(data), 2);
        }},
       {"root 0", "root 1", "root 2"}},
  };
  for (std::size_t which = 0; which < cases.size(); ++which) {
    store_ = make_memory_store();
    run_ranks(3, [&](int rank) {
      Group group = make_group(rank, 3);
      expect_mismatch(group, cases[which].first[static_cast<std::size_t>(rank)], cases[which].second);
    });
  }
}

TEST_F(NetworkBackendTest, TellsMismatchWithARankThatIsMissing) {
  std::latch others_gone(2);
  std::latch first_calls(1);
  run_ranks(3, [&](int rank) {
    Group group = make_group(rank, 3);
    // Rank 1 waits for rank 2 first: rank 0 has to have called by the end of that, on a busy machine too. So its time
    // begins when rank 0 is there.
    if (rank == 0) first_calls.count_down();
    if (rank == 1) first_calls.wait();
    const Deadline deadline = Deadline::after(seconds(2));
    std::vector<float> data(3);
    if (rank == 0) expect_mismatch(group, [&](Group& g) { g.barrier(deadline); }, {"rank 2: has not called"});
    if (rank == 1)
      expect_mismatch(group, [&](Group& g) { g.all_reduce(std::span(data), Reduction::kSum, deadline); },
                      {"rank 0: barrier", "rank 1: all_reduce #1 of 3 float", "rank 2: has not called"});
    if (rank < 2) return others_gone.count_down();
    // It comes too late: the others have given up, and it is told why.
    others_gone.wait();
    try {
      group.barrier();
      ADD_FAILURE() << "nobody was there";
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::kPeerLost || error.kind() == ErrorKind::kTimeout) << error.what();
    }
  });
}

TEST_F(NetworkBackendTest, RefusesAMessageThatDoesNotFit) {
  for (const bool other_type : {false, true}) {
    store_ = make_memory_store();
    run_ranks(2, [&](int rank) {
      Group group = make_group(rank, 2);
      std::vector<float> five(5);
      std::vector<float> four(4);
      std::vector<std::int32_t> words(5);
      try {
        if (rank == 0)
          group.send(std::span(five), 1, 3);
        else if (other_type)
          group.receive(std::span(words), 0, 3);
        else
          group.receive(std::span(four), 0, 3);
        ADD_FAILURE() << "rank " << rank << " noticed nothing";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), rank == 1 ? ErrorKind::kMismatch : ErrorKind::kPeerLost) << error.what();
        EXPECT_NE(std::string(error.what()).find("5 float"), std::string::npos) << error.what();
      }
    });
  }
}

TEST_F(NetworkBackendTest, RefusesMoreRanksThanItCanCombine) {
  class Crowd final : public Transport {
   public:
    std::string_view name() const override { return "crowd"; }
    int rank() const override { return 0; }
    int size() const override { return static_cast<int>(kMaxRanks) + 1; }
    std::unique_ptr<Transfer> send(int, std::uint64_t, std::span<const std::byte>) override { return nullptr; }
    std::unique_ptr<Transfer> receive(int, std::uint64_t, std::span<std::byte>) override { return nullptr; }
    std::unique_ptr<Transport> split(const std::vector<int>&, const std::string&, const Deadline&) override {
      return nullptr;
    }
    void abort(int, const std::string&) override {}
  };
  try {
    NetworkBackend backend(std::make_unique<Crowd>());
    FAIL() << "65 ranks";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
  }
}

}  // namespace
}  // namespace muster::comm
