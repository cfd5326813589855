// The hierarchical backend over pretend hosts: ranks are threads, and shared memory stands in for the network where the
// test does not say gloo. Real hosts (network namespaces): hosts_test.cpp.
#include "muster/comm/hierarchical.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/error.h"
#include "muster/comm/gloo_transport.h"
#include "muster/comm/group.h"
#include "muster/comm/network_backend.h"
#include "muster/comm/self_backend.h"
#include "muster/comm/shm_backend.h"
#include "support/collective_checks.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using muster::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

SharedRegion again(const SharedRegion& region) {
  return SharedRegion::attach(FileDescriptor(::dup(region.descriptor())));
}

// A group whose rank r is on host host_of_rank[r].
class PretendHosts {
 public:
  explicit PretendHosts(std::vector<int> host_of_rank, bool gloo = false)
      : host_of_rank_(std::move(host_of_rank)),
        layout_(host_of_rank_),
        gloo_(gloo),
        network_(create_shm_group_region(static_cast<int>(host_of_rank_.size()))) {
    for (const std::vector<int>& members : layout_.hosts)
      hosts_.push_back(create_shm_group_region(static_cast<int>(members.size())));
  }

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }

  std::unique_ptr<Backend> backend(int rank) const {
    const auto place = static_cast<std::size_t>(rank);
    const auto host = static_cast<std::size_t>(layout_.host_of[place]);
    auto network = gloo_ ? gloo_network(rank) : join_shm_group(again(network_), rank, Deadline::after(60s));
    auto local = layout_.hosts[host].size() == 1
                     ? make_self_backend()
                     : join_shm_group(again(hosts_[host]), layout_.index_of[place], Deadline::after(60s));
    return std::make_unique<HierarchicalBackend>(std::move(local), std::move(network), host_of_rank_);
  }

  void run(const std::function<void(Group)>& body, std::chrono::nanoseconds timeout = 60s) const {
    testing::run_ranks(ranks(), [&](int rank) { body(Group(backend(rank), timeout)); });
  }

 private:
  std::unique_ptr<Backend> gloo_network(int rank) const {
    GlooOptions options;
    options.rank = rank;
    options.size = ranks();
    options.store = store_;
    return std::make_unique<NetworkBackend>(make_gloo_transport(options));
  }

  std::vector<int> host_of_rank_;
  HostLayout layout_;
  bool gloo_;
  std::shared_ptr<Store> store_ = make_memory_store();
  SharedRegion network_;
  std::vector<SharedRegion> hosts_;
};

TEST(HostLayout, NumbersHostsByTheirLowestRank) {
  const HostLayout layout({7, 3, 7, 3, 3});
  EXPECT_THAT(layout.hosts, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3, 4)));
  EXPECT_THAT(layout.host_of, ElementsAre(0, 1, 0, 1, 1));
  EXPECT_THAT(layout.index_of, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(layout.owners, 2U);
  EXPECT_FALSE(layout.even);
  EXPECT_TRUE(HostLayout({0, 1, 1, 0}).even);
}

TEST(GlobalRanks, AreSaidInsteadOfLocalOnes) {
  EXPECT_EQ(with_global_ranks("rank 1 (pid 12) waits for rank 0; rank 10: nothing; rank", {4, 7}),
            "rank 7 (pid 12) waits for rank 4; rank 10: nothing; rank");
  EXPECT_EQ(with_global_ranks("", {4}), "");
  EXPECT_EQ(with_global_ranks("rank 0", {4}), "rank 4");
  EXPECT_EQ(with_global_ranks("rank 99999999999999999999999 and rank 0", {4}),
            "rank 99999999999999999999999 and rank 4");
}

// Hosts that are aligned subtrees: the whole matrix, whose reference is the flat tree.
class AlignedHosts : public ::testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Hierarchical, AlignedHosts,
                         ::testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 1},
                                           std::vector<int>{0, 0, 1, 1, 2, 2}, std::vector<int>{0, 0, 1, 1, 2},
                                           std::vector<int>{0, 1, 2}),
                         [](const auto& test) { return fmt::format("Hosts{}", fmt::join(test.param, "")); });

TEST_P(AlignedHosts, EveryCollectiveAgreesWithTheFlatTree) {
  PretendHosts(GetParam()).run([](const Group& group) { testing::check_collectives(group, 6001); });
}

// More than one segment, with a rest, and parts that are exchanged in two steps.
TEST_P(AlignedHosts, LongArraysAreReducedPieceByPiece) {
  PretendHosts(GetParam()).run([](Group group) {
    const std::size_t count = 700001;
    auto data = testing::values_of<float>(group.rank(), 0, count);
    group.all_reduce(std::span(data), Reduction::kAverage);
    for (std::size_t i = 0; i<count; i += i % 65536> 65000 ? 1 : 499)
      ASSERT_EQ(data[i], testing::reduced_value<float>(Reduction::kAverage, group.size(), i)) << i;
  });
}

TEST(Hierarchical, EveryCollectiveWorksOverGloo) {
  if (!gloo_available()) GTEST_SKIP() << "a build without Gloo";
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 1}})
    PretendHosts(hosts, true).run([](const Group& group) {
      testing::CollectiveChecks<Half> halves(group);
      testing::CollectiveChecks<float> floats(group);
      for (const std::size_t count : {0UL, 1UL, 7UL, 20001UL}) {
        halves.check(count);
        floats.check(count);
      }
      floats.check(200001);
    });
}

// Hosts in any order: integers have one sum, whatever the order.
TEST(Hierarchical, RanksMayBeScatteredOverHosts) {
  PretendHosts({0, 1, 0, 2, 1, 0, 2}).run([](const Group& group) {
    testing::CollectiveChecks<std::int32_t> checks(group);
    for (const std::size_t count : {0UL, 1UL, 7UL, 1025UL, 50001UL})
      checks.check(count);
  });
}

TEST(Hierarchical, ScatteredHostsGiveTheSameBitsEveryTime) {
  std::vector<std::vector<float>> results(5);
  for (int run = 0; run < 3; ++run) {
    std::vector<std::vector<float>> now(5);
    PretendHosts({0, 1, 0, 1, 1}).run([&](Group group) {
      auto data = testing::values_of<float>(group.rank(), 0, 3001);
      group.all_reduce(std::span(data));
      now[static_cast<std::size_t>(group.rank())] = data;
    });
    for (const auto& result : now)
      testing::expect_same_bits(result, now[0], "between ranks");
    if (run > 0) testing::expect_same_bits(now[0], results[0], "between runs");
    results = now;
  }
}

TEST(Hierarchical, ADifferentCallOnOneRankIsNamedOnAllRanks) {
  PretendHosts({0, 0, 1, 1}).run([](Group group) {
    std::vector<float> data(5);
    group.all_reduce(std::span(data));
    const Error error = error_of([&] {
      if (group.rank() == 2)
        group.broadcast(std::span(data), 1);
      else
        group.all_reduce(std::span(data));
    });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
    EXPECT_THAT(error.message(),
                HasSubstr("rank 1: all_reduce #2 of 5 float, sum; rank 2: broadcast #2 of 5 float, root "
                          "1; rank 3: all_reduce #2 of 5 float, sum"));
  });
}

void expect_missing_rank_is_named(const PretendHosts& hosts, int missing) {
  constexpr std::chrono::seconds kTimeout{3};
  std::atomic<int> gave_up = 0;
  hosts.run(
      [&](Group group) {
        group.barrier(Deadline::after(60s));
        if (group.rank() == missing) {
          // It is there, and stays away until the others have seen that.
          EXPECT_TRUE(testing::eventually([&] { return gave_up == hosts.ranks() - 1; }));
          return;
        }
        const Error error = error_of([&] { group.barrier(); });
        ++gave_up;
        EXPECT_TRUE(error.kind() == ErrorKind::kTimeout || error.kind() == ErrorKind::kPeerLost) << error.what();
        EXPECT_THAT(error.message(), HasSubstr(fmt::format("rank {}", missing))) << "on rank " << group.rank();
      },
      kTimeout);
}

// A leader and another one, and over Gloo; all at once, because they spend their time waiting.
TEST(Hierarchical, ARankThatDoesNotComeIsNamedOnEveryHost) {
  std::thread leader([] { expect_missing_rank_is_named(PretendHosts({0, 0, 1, 1}), 0); });
  std::thread over_gloo([] {
    if (gloo_available()) expect_missing_rank_is_named(PretendHosts({0, 0, 1, 1}, true), 3);
  });
  expect_missing_rank_is_named(PretendHosts({0, 0, 1, 1}), 3);
  leader.join();
  over_gloo.join();
}

TEST(Hierarchical, AnAbortEndsEveryWaitWithItsReason) {
  PretendHosts({0, 0, 1, 1}).run([](Group group) {
    if (group.rank() == 1) {
      group.abort(1, "its parent saw it die");
      return;
    }
    const Error error = error_of([&] { group.barrier(); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("its parent saw it die"));
    EXPECT_EQ(error_of([&] { group.barrier(); }).message(), error.message()) << "not sticky";
  });
}

TEST(Hierarchical, MessagesThatDoNotFitAreRefusedInGlobalRanks) {
  PretendHosts({0, 0, 1, 1}).run([](Group group) {
    std::vector<float> data(5);
    if (group.rank() == 2) group.send(std::span(data), 3, 7);
    if (group.rank() == 3) {
      const Error error = error_of([&] { group.receive(std::span(data).first(4), 2, 7); });
      EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
      EXPECT_THAT(error.message(), HasSubstr("rank 2"));
    }
  });
}

// By host, across hosts and mixed; each new group does the matrix' checks in its own ranks.
TEST(Hierarchical, SplitsKeepToWhatTheirRanksShare) {
  PretendHosts({0, 0, 1, 1}).run([](Group group) {
    const Group host = group.split(group.rank() / 2);
    EXPECT_EQ(host.backend(), "shm");
    testing::CollectiveChecks<float>(host).check(1025);
    const Group row = group.split(group.rank() % 2);
    EXPECT_EQ(row.backend(), "shm") << "the stand-in for a network";
    testing::CollectiveChecks<float>(row).check(1025);
    const Group mixed = group.split(group.rank() == 1 ? 1 : 0, -group.rank());
    EXPECT_EQ(mixed.backend(), group.rank() == 1 ? "self" : "hierarchical");
    testing::CollectiveChecks<std::int64_t>(mixed).check(1025);
    group.barrier();
  });
}

}  // namespace
}  // namespace muster::comm
