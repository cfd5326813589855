// The choice of a backend as a pure function, then ranks as threads that find each other through a store.
#include "muster/comm/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "support/collective_checks.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/ranks.h"

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using muster::testing::error_of;
using ::testing::HasSubstr;

// "aab": two ranks on host a, one on host b. Under MPI when `world` is given, as ranks of that world.
std::vector<Place> at(const std::string& hosts, const std::vector<int>& world = {}) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    places.push_back({hosts.substr(rank, 1), world.empty() ? -1 : world[rank]});
  return places;
}

const MissingGloo kMissing{"nobody installed it", "Install libgloo-dev and build again."};
const AvailableBackends kAll{{}, true};
const AvailableBackends kNoGloo{kMissing, true};
const AvailableBackends kNone{kMissing, false};

TEST(ChooseBackend, FollowsFromWhereTheRanksAre) {
  struct Case {
    std::vector<Place> places;
    std::string requested;
    AvailableBackends available;
    std::string backend, network, reason;
  };
  const std::vector<Case> cases{
      {at("a"), "auto", kNone, "self", "", "a group of one rank"},
      {at("a"), "gloo", kNone, "self", "", "a group of one rank"},
      {at("aaaa"), "auto", kNone, "shm", "", "all 4 ranks are on one host"},
      {at("aaaa"), "hierarchical", kAll, "shm", "", "all 4 ranks are on one host"},
      {at("aaaa", {0, 1, 2, 3}), "auto", kAll, "shm", "", "all 4 ranks are on one host"},
      {at("abc"), "auto", kAll, "gloo", "gloo", "each of the 3 ranks is on a host of its own"},
      {at("abc", {0, 1, 2}), "auto", kAll, "gloo", "gloo", "each of the 3 ranks is on a host of its own"},
      {at("abc", {0, 1, 2}), "auto", kNoGloo, "mpi", "mpi", "each of the 3 ranks is on a host of its own"},
      {at("aabb"), "auto", kAll, "hierarchical", "gloo", "4 ranks are on 2 hosts: shared memory inside, gloo between"},
      {at("aba"), "hierarchical", kAll, "hierarchical", "gloo",
       "3 ranks are on 2 hosts: shared memory inside, gloo between"},
      {at("aba", {2, 1, 0}), "auto", kNoGloo, "hierarchical", "mpi",
       "3 ranks are on 2 hosts: shared memory inside, mpi between"},
      {at("aaaa"), "shm", kNone, "shm", "", "asked for"},
      {at("aaaa"), "gloo", kAll, "gloo", "gloo", "asked for"},
      {at("abab"), "gloo", kAll, "gloo", "gloo", "asked for"},
      {at("aab", {2, 0, 1}), "mpi", kNoGloo, "mpi", "mpi", "asked for"},
  };
  for (const Case& c : cases) {
    const BackendChoice choice = choose_backend(c.places, c.requested, c.available);
    EXPECT_EQ(choice.backend, c.backend) << c.requested << " " << c.reason;
    EXPECT_EQ(choice.network, c.network) << c.requested << " " << c.reason;
    EXPECT_EQ(choice.reason, c.reason) << c.requested;
  }
}

TEST(ChooseBackend, RefusesWhatCannotBeAndSaysWhatToDo) {
  struct Case {
    std::vector<Place> places;
    std::string requested;
    AvailableBackends available;
    ErrorKind kind;
    std::string text;
  };
  const std::vector<Case> cases{
      {at("aa"), "glo", kAll, ErrorKind::kInvalidInput, "there is no backend \"glo\" (did you mean \"gloo\"?)"},
      {at("aa"), "", kAll, ErrorKind::kInvalidInput, "Choose one of auto, shm, gloo, mpi and hierarchical."},
      {at("a"), "smh", kAll, ErrorKind::kInvalidInput, "did you mean \"shm\"?"},
      {at("aab"), "shm", kAll, ErrorKind::kInvalidInput, "rank 2 is elsewhere than rank 0"},
      {at("aa"), "gloo", kNoGloo, ErrorKind::kUnsupported, "Install libgloo-dev and build again"},
      {at("ab"), "auto", kNone, ErrorKind::kUnsupported, "no gloo backend: nobody installed it. Install libgloo-dev"},
      {at("ab"), "auto", kNoGloo, ErrorKind::kUnsupported, "Install libgloo-dev and build again"},
      {at("aa", {0, 1}), "mpi", kNone, ErrorKind::kUnsupported, "Install libopenmpi-dev and build again"},
      {at("aa", {0, -1}), "mpi", kAll, ErrorKind::kInvalidInput, "rank 1 has none. Start the ranks with mpirun -n 2."},
      {at("aab", {0, 1, 0}), "mpi", kAll, ErrorKind::kInvalidInput, "ranks 0 and 2 are not of one MPI world"},
  };
  for (const Case& c : cases) {
    const Error error = error_of([&] { choose_backend(c.places, c.requested, c.available); });
    EXPECT_EQ(error.kind(), c.kind) << c.requested << ": " << error.what();
    EXPECT_THAT(error.what(), HasSubstr(c.text)) << c.requested;
  }
}

TEST(Place, IsTheSameForThreadsAndCarriesNoSpaces) {
  Place of_thread;
  std::thread([&] { of_thread = this_place(); }).join();
  EXPECT_EQ(of_thread, this_place());
  EXPECT_EQ(this_place().host.find_first_of(" \n"), std::string::npos);
  EXPECT_GT(this_place().host.size(), 20U);
}

TEST(MakeGroup, OneRankNeedsNoStore) {
  BackendChoice choice;
  GroupOptions options;
  options.choice = &choice;
  EXPECT_EQ(make_group(options).size(), 1);
  EXPECT_EQ(choice.backend, "self");
}

TEST(MakeGroup, RanksOfAHostShareMemory) {
  const auto store = make_memory_store();
  testing::run_ranks(3, [&](int rank) {
    BackendChoice choice;
    GroupOptions options;
    options.rank = rank;
    options.size = 3;
    options.store = store;
    options.choice = &choice;
    const Group group = make_group(options);
    EXPECT_EQ(group.backend(), "shm");
    EXPECT_EQ(choice.reason, "all 3 ranks are on one host");
    testing::CollectiveChecks<float>(group).check(1025);
  });
}

TEST(MakeGroup, GlooIsUsedWhenAskedFor) {
  if (available_backends().missing_gloo) GTEST_SKIP() << "a build without Gloo";
  const auto store = make_memory_store();
  testing::run_ranks(2, [&](int rank) {
    GroupOptions options;
    options.rank = rank;
    options.size = 2;
    options.store = store;
    options.backend = "gloo";
    const Group group = make_group(options);
    EXPECT_EQ(group.backend(), "gloo");
    testing::CollectiveChecks<float>(group).check(1025);
  });
}

TEST(MakeGroup, ARankThatDoesNotComeIsNamed) {
  GroupOptions options;
  options.size = 2;
  options.store = make_memory_store();
  options.timeout = 50ms;
  const Error error = error_of([&] { make_group(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("rank 1 has not come to group group"));
}

TEST(MakeGroup, OtherSettingsOnAnotherRankAreAMismatch) {
  const auto store = make_memory_store();
  testing::run_ranks(2, [&](int rank) {
    GroupOptions options;
    options.rank = rank;
    options.size = rank == 0 ? 2 : 3;
    options.store = store;
    options.timeout = 5s;
    const Error error = error_of([&] { make_group(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(rank == 0 ? "rank 1 joins" : "rank 0 joins"));
  });
}

TEST(MakeGroup, BadOptionsAreRefusedAtOnce) {
  for (const auto& [rank, size] : std::vector<std::pair<int, int>>{{-1, 2}, {2, 2}, {0, 0}, {0, -3}, {0, 2}}) {
    GroupOptions options;
    options.rank = rank;
    options.size = size;
    EXPECT_EQ(error_of([&] { make_group(options); }).kind(), ErrorKind::kInvalidInput);
  }
}

TEST(MakeGroup, WhatOthersLeftInTheStoreIsChecked) {
  for (const char* text :
       {"", "[]", "{", R"({"host":"a"})", R"({"host":1,"mpi_rank":0})", R"({"host":"a","mpi_rank":"x"})"}) {
    const auto store = make_memory_store();
    store->set("group/places/1", text);
    GroupOptions options;
    options.size = 2;
    options.store = store;
    options.timeout = 1s;
    EXPECT_EQ(error_of([&] { make_group(options); }).kind(), ErrorKind::kDamaged) << text;
  }
}

// What a supervised worker's group does when the members change.
TEST(MakeGroup, AWaitForTheOthersEndsWithWhatTheInterruptionThrows) {
  for (const int rank : {0, 1}) {
    GroupOptions options;
    options.rank = rank;
    options.size = 2;
    options.store = make_memory_store();
    options.timeout = 60s;
    options.interruption = [] { throw Error(ErrorKind::kInterrupted, "the members changed"); };
    EXPECT_EQ(error_of([&] { make_group(options); }).kind(), ErrorKind::kInterrupted) << rank;
  }
}

TEST(MakeGroup, ACollectiveOfAHostEndsWithWhatTheInterruptionThrows) {
  const auto store = make_memory_store();
  std::atomic<bool> changed = false;
  std::atomic<int> met = 0;
  std::atomic<int> interrupted = 0;
  testing::run_ranks(3, [&](int rank) {
    GroupOptions options;
    options.rank = rank;
    options.size = 3;
    options.store = store;
    options.timeout = 60s;
    options.interruption = [&] {
      if (changed) throw Error(ErrorKind::kInterrupted, "the members changed");
    };
    Group group = make_group(options);
    Group half = group.split(0, rank);
    ++met;
    if (rank == 2) {  // it does not come any more
      EXPECT_TRUE(testing::eventually([&] { return met == 3; }));
      changed = true;
    } else {
      // The one as the other: a group that was split off has its parent's interruption.
      const Error error = error_of([&] { rank == 0 ? group.barrier() : half.barrier(); });
      ++interrupted;
      EXPECT_EQ(error.kind(), ErrorKind::kInterrupted) << error.what();
    }
    // Nobody leaves before: that would end the others' waits as well.
    EXPECT_TRUE(testing::eventually([&] { return interrupted == 2; }));
  });
}

}  // namespace
}  // namespace muster::comm
