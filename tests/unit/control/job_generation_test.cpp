// Ranks and lanes of the hosts of a job, and what of a generation's text is refused.
#include "muster/control/job_generation.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::control {
namespace {

// Three hosts with two, one and three workers, and lanes 3, 1 and 4.
JobGeneration three_hosts() {
  return {7, 8, {{11, "a", 0b101, 0, 3}, {4, "b", 0b1, 3, 4}, {12, "c", 0b1110, 4, 8}}};
}

TEST(JobGeneration, IsTheSameAfterItWasText) {
  const JobGeneration generation = three_hosts();
  EXPECT_EQ(JobGeneration::from_text(generation.to_text()), generation);
  EXPECT_EQ(hosts_key(3), "hosts/3");
  EXPECT_EQ(own_host_key(3), "own_host/3");
  EXPECT_EQ(broken_key(3), "broken/3");
}

TEST(JobGeneration, RanksGoHostByHostAndSeatBySeat) {
  const JobGeneration generation = three_hosts();
  EXPECT_EQ(generation.workers(), 6);
  EXPECT_EQ(generation.place_of(4), 1U);
  EXPECT_EQ(generation.rank_of(0, 0), 0);
  EXPECT_EQ(generation.rank_of(0, 2), 1);
  EXPECT_EQ(generation.rank_of(1, 0), 2);
  EXPECT_EQ(generation.rank_of(2, 1), 3);
  EXPECT_EQ(generation.rank_of(2, 3), 5);
  const std::vector<std::size_t> hosts{0, 0, 1, 2, 2, 2};
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(generation.host_of(rank), hosts[static_cast<std::size_t>(rank)]) << rank;
  try {
    generation.place_of(5);
    FAIL() << "a host that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  }
}

TEST(JobGeneration, LanesOfAStepAreCoveredOnceWhateverItsLength) {
  const JobGeneration generation = three_hosts();
  EXPECT_EQ(generation.lanes_of(0, 8), (LaneRange{0, 3}));
  EXPECT_EQ(generation.lanes_of(1, 8), (LaneRange{3, 4}));
  EXPECT_EQ(generation.lanes_of(2, 8), (LaneRange{4, 8}));
  for (std::size_t count = 1; count <= 8; ++count) {
    std::size_t next = 0;
    for (std::size_t place = 0; place < 3; ++place) {
      const LaneRange lanes = generation.lanes_of(place, count);
      EXPECT_EQ(lanes.first, next) << count;
      EXPECT_LE(lanes.first, lanes.last);
      next = lanes.last;
    }
    EXPECT_EQ(next, count);
  }
}

TEST(JobGeneration, RefusesWhatNobodyCanTrainBy) {
  const auto refused = [](const JobGeneration& generation) {
    try {
      JobGeneration::from_text(generation.to_text());
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kDamaged;
    }
  };
  const JobGeneration good = three_hosts();
  EXPECT_FALSE(refused(good));
  const auto with = [&](const auto& change) {
    JobGeneration changed = good;
    change(changed);
    return changed;
  };
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.number = 0; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.lanes = 0; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.lanes = 9; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts.clear(); })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts[1].number = 11; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts[1].number = 0; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts[1].members = 0; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts[1].first_lane = 2; })));
  EXPECT_TRUE(refused(with([](JobGeneration& bad) { bad.hosts[1].last_lane = 2; })));
  for (const char* text : {"", "[]", "{}", R"({"number":1,"lanes":1,"hosts":{}})", R"({"number":1,"lanes":1})",
                           R"({"number":-1,"lanes":1,"hosts":[]})", R"({"number":1,"lanes":1,"hosts":[1]})"})
    EXPECT_THROW(JobGeneration::from_text(text), Error) << text;
}

}  // namespace
}  // namespace muster::control
