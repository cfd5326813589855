// The shm backend: the whole matrix with ranks as threads and as processes, mismatches, messages, splits, deaths.
#include "muster/comm/shm_backend.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/comm/group.h"
#include "muster/comm/shm_layout.h"
#include "support/collective_checks.h"
#include "support/errors.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using muster::testing::error_of;
using muster::testing::run_ranks;

// Another mapping of the same memory, as another process has it.
SharedRegion again(const SharedRegion& region) {
  return SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
}

// Ranks as threads, each with its own mapping and its own Group.
void run_group(int ranks, const std::function<void(Group)>& body) {
  const SharedRegion region = create_shm_group_region(ranks);
  run_ranks(ranks, [&](int rank) { body(Group(join_shm_group(again(region), rank, Deadline::after(60s)), 60s)); });
}

class ShmRanks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Shm, ShmRanks, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(ShmRanks, EveryCollectiveAgreesWithTheSerialReference) {
  run_group(GetParam(), [](const Group& group) { muster::testing::check_collectives(group); });
}

// Longer than all slots together, so that every slot is used again; and lengths around the borders of a slot.
TEST_P(ShmRanks, LongArraysUseEverySlotAgain) {
  run_group(GetParam(), [](Group group) {
    for (const std::size_t count : {32767UL, 32768UL, 32769UL, 65536UL, 400001UL}) {
      auto data = muster::testing::values_of<float>(group.rank(), 0, count);
      group.all_reduce(std::span(data));
      for (std::size_t i = 0; i<count; i += i % 32768> 32000 ? 1 : 997)
        ASSERT_EQ(data[i], muster::testing::reduced_value<float>(Reduction::kSum, group.size(), i))
            << count << " " << i;
    }
  });
}

TEST(ShmMismatch, AnotherLengthTypeReductionRootOrOperationIsNamedRankByRank) {
  struct Case {
    std::function<void(Group&)> odd;
    std::string expected;
  };
  std::vector<float> f(9);
  std::vector<double> d(5);
  const std::vector<Case> cases{
      {[](Group& g) { g.all_reduce(std::span(std::vector<float>(6).data(), 6)); }, "all_reduce #2 of 6 float, sum"},
      {[](Group& g) { g.all_reduce(std::span(std::vector<double>(5).data(), 5)); }, "all_reduce #2 of 5 double, sum"},
      {[](Group& g) { g.all_reduce(std::span(std::vector<float>(5).data(), 5), Reduction::kMax); }, "float, max"},
      {[](Group& g) { g.broadcast(std::span(std::vector<float>(5).data(), 5), 1); }, "broadcast #2 of 5 float, root 1"},
      {[](Group& g) { g.barrier(); }, "barrier #2"},
  };
  for (const Case& odd_case : cases) {
    run_group(3, [&](Group group) {
      group.barrier();
      std::vector<float> data(5, 1.0F);
      const Error error = error_of([&] {
        if (group.rank() == 1)
          odd_case.odd(group);
        else
          group.all_reduce(std::span(data));
      });
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
      EXPECT_NE(error.message().find("rank 0: all_reduce #2 of 5 float, sum"), std::string::npos) << error.what();
      EXPECT_NE(error.message().find("rank 1: "), std::string::npos) << error.what();
      EXPECT_NE(error.message().find(odd_case.expected), std::string::npos) << error.what();
      // Nothing was combined, and the failure stays.
      EXPECT_EQ(data, std::vector<float>(5, 1.0F));
      EXPECT_EQ(error_of([&] { group.barrier(); }).message(), error.message());
    });
  }
}

TEST(ShmMessagesTest, TagsPassEachOtherAndKeepTheirOrder) {
  run_group(2, [](Group group) {
    // More than a ring holds, so that both sides must take in while they give.
    constexpr std::size_t kLong = 100000;
    constexpr int kMessages = 20;
    const int peer = 1 - group.rank();
    std::vector<std::vector<float>> sent;
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(
          muster::testing::values_of<float>(group.rank(), static_cast<std::size_t>(i), i % 3 == 0 ? kLong : 3));
      pending.push_back(group.start_send(std::span(sent.back()), peer, static_cast<std::uint32_t>(i % 2)));
    }
    for (const int tag : {1, 0}) {
      for (int i = tag; i < kMessages; i += 2) {
        std::vector<float> got(i % 3 == 0 ? kLong : 3);
        group.receive(std::span(got), peer, static_cast<std::uint32_t>(tag));
        muster::testing::expect_same_bits(
            got, muster::testing::values_of<float>(peer, static_cast<std::size_t>(i), got.size()), "message");
      }
    }
    for (Pending& send : pending)
      send.wait();
  });
}

TEST(ShmMessagesTest, AReceiveThatWasStartedFirstGetsTheMessageInPlace) {
  run_group(2, [](Group group) {
    std::vector<std::int64_t> data(50000, group.rank());
    if (group.rank() == 0) {
      Pending receive = group.start_receive(std::span(data), 1, 4);
      EXPECT_FALSE(receive.test());
      group.barrier();
      receive.wait();
      EXPECT_EQ(data, std::vector<std::int64_t>(50000, 1));
      EXPECT_TRUE(receive.test());
    } else {
      group.barrier();
      group.send(std::span(data), 0, 4);
    }
  });
}

TEST(ShmMessagesTest, AnotherLengthThanSentIsAMismatch) {
  run_group(2, [](Group group) {
    std::vector<float> data(8);
    if (group.rank() == 0) {
      group.send(std::span(data), 1);
    } else {
      const Error error = error_of([&] { group.receive(std::span(data).first(7), 0); });
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      EXPECT_NE(error.message().find("rank 0 sent 8 float with tag 0, and 7 float are expected"), std::string::npos)
          << error.what();
    }
  });
}

TEST(ShmMessagesTest, ADroppedReceiveIsForgottenAndItsMessageKept) {
  run_group(2, [](Group group) {
    std::vector<float> data(3, static_cast<float>(group.rank()));
    if (group.rank() == 0) {
      { const Pending dropped = group.start_receive(std::span(data), 1, 9); }
      group.barrier();
      group.receive(std::span(data), 1, 9);
      EXPECT_EQ(data[2], 1);
    } else {
      group.barrier();
      group.send(std::span(data), 0, 9);
    }
  });
}

TEST_P(ShmRanks, SharedArraysAreCombinedInPlaceFromAnyPartOfThem) {
  run_group(GetParam(), [](Group group) {
    constexpr std::size_t kCount = 50001;
    const SharedArray array = group.share(kCount * sizeof(float));
    ASSERT_EQ(array.as<float>().size(), kCount);
    EXPECT_EQ(array.as<float>()[kCount - 1], 0);
    for (const std::size_t first : {0UL, 1UL, 16UL, 4097UL}) {
      for (const std::size_t count : {0UL, 1UL, 7UL, 1025UL, kCount - first}) {
        for (const Reduction reduction : {Reduction::kSum, Reduction::kAverage, Reduction::kMax}) {
          const std::span<float> part = array.as<float>().subspan(first, count);
          const auto input = muster::testing::values_of<float>(group.rank(), 0, count);
          std::copy(input.begin(), input.end(), part.begin());
          group.all_reduce(part, reduction);
          std::vector<float> expected(count);
          for (std::size_t i = 0; i < count; ++i)
            expected[i] = muster::testing::reduced_value<float>(reduction, group.size(), i);
          muster::testing::expect_same_bits(std::vector<float>(part.begin(), part.end()), expected, "shared array");
          group.barrier();
        }
      }
    }
  });
}

TEST(ShmShared, AnotherPartOrPlainMemoryOnAnotherRankIsAMismatch) {
  for (const bool plain : {false, true}) {
    run_group(2, [&](Group group) {
      const SharedArray array = group.share(8192);
      std::vector<float> own(10);
      std::span<float> data = array.as<float>().subspan(group.rank() == 0 ? 0 : 64, 10);
      if (plain && group.rank() == 1) data = own;
      const Error error = error_of([&] { group.all_reduce(data); });
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
      EXPECT_NE(error.message().find("from element 0 of shared array 1"), std::string::npos) << error.what();
    });
  }
}

TEST(ShmSplit, MakesRowsAndColumnsOfAMesh) {
  run_group(6, [](Group group) {
    Group row = group.split(group.rank() / 3);
    Group column = group.split(group.rank() % 3, -group.rank());
    EXPECT_EQ(row.size(), 3);
    EXPECT_EQ(row.rank(), group.rank() % 3);
    EXPECT_EQ(column.size(), 2);
    EXPECT_EQ(column.rank(), 1 - group.rank() / 3);  // the key turns the order round
    std::vector<std::int32_t> value{group.rank()};
    row.all_reduce(std::span(value));
    EXPECT_EQ(value[0], group.rank() < 3 ? 3 : 12);
    value[0] = group.rank();
    column.all_reduce(std::span(value));
    EXPECT_EQ(value[0], 2 * (group.rank() % 3) + 3);
    Group alone = group.split(group.rank());
    EXPECT_EQ(alone.size(), 1);
    group.barrier();
  });
}

TEST(ShmStore, RanksThatShareOnlyAStoreFindEachOther) {
  const std::shared_ptr<Store> store = make_memory_store();
  run_ranks(3, [&](int rank) {
    Group group(make_shm_backend(rank, 3, store, Deadline::after(60s)));
    std::vector<std::int32_t> value{1};
    group.all_reduce(std::span(value));
    EXPECT_EQ(value[0], 3);
  });
}

TEST(ShmRegion, RefusesWhatIsNotAGroupsAndSaysWhy) {
  SharedRegion foreign = SharedRegion::create(1 << 20);
  Error error = error_of([&] { join_shm_group(again(foreign), 0, Deadline::after(1s)); });
  EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
  EXPECT_NE(error.message().find("does not begin with a group's mark"), std::string::npos) << error.what();
  // A head that promises more than there is.
  SharedRegion cut = SharedRegion::create(ShmLayout::bytes({2, 4096, 4096}));
  ShmLayout::format(cut.bytes(), {2, 4096, 4096});
  reinterpret_cast<ShmHead*>(cut.bytes().data())->slot_bytes = 1 << 20;
  error = error_of([&] { join_shm_group(again(cut), 0, Deadline::after(1s)); });
  EXPECT_NE(error.message().find("it is cut"), std::string::npos) << error.what();
  reinterpret_cast<ShmHead*>(cut.bytes().data())->layout_version = 99;
  error = error_of([&] { join_shm_group(again(cut), 0, Deadline::after(1s)); });
  EXPECT_NE(error.message().find("version 99"), std::string::npos) << error.what();
  error = error_of([&] { join_shm_group(create_shm_group_region(2), 5, Deadline::after(1s)); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
}

TEST(ShmRegion, ARankThatNeverComesIsNamed) {
  const Error error = error_of([&] { join_shm_group(create_shm_group_region(2), 0, Deadline::after(50ms)); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_NE(error.message().find("rank 1 (which never joined) has not joined the group"), std::string::npos)
      << error.what();
}

}  // namespace
}  // namespace muster::comm
