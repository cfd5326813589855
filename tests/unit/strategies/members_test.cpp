// The bodies of Membership by themselves, without a strategy: on clocks that are turned by hand.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/comm/arena.h"
#include "muster/comm/arena_address.h"
#include "muster/control/job_generation.h"
#include "muster/strategies/members/fixed_members.h"
#include "muster/strategies/members/host_members.h"
#include "muster/strategies/members/roster_access.h"
#include "support/errors.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::strategies {
namespace {

using namespace std::chrono_literals;

TEST(FixedMembers, ANoteGoesToWhoeverTakesItAndNotTooOften) {
  FakeClock clock;
  std::vector<std::string> written;
  FixedMembers members(
      comm::Group(), [&](const std::string& text) { written.push_back(text); }, clock);
  EXPECT_TRUE(members.wants_note(false));
  members.write_note("first");
  EXPECT_FALSE(members.wants_note(false));
  EXPECT_TRUE(members.wants_note(true)) << "the last one is never left out";
  clock.advance(FixedMembers::kNoteInterval - 1ns);
  EXPECT_FALSE(members.wants_note(false));
  clock.advance(1ns);
  EXPECT_TRUE(members.wants_note(false));
  members.write_note("second");
  EXPECT_FALSE(members.wants_note(false));
  EXPECT_EQ(written, (std::vector<std::string>{"first", "second"}));
}

TEST(FixedMembers, WhereNobodyTakesANoteNoneIsMade) {
  FixedMembers members{comm::Group()};
  EXPECT_FALSE(members.wants_note(false));
  EXPECT_FALSE(members.wants_note(true));
  members.write_note("to nobody");
  EXPECT_EQ(members.note(), "");
}

TEST(FixedMembers, NobodyIsReplaced) {
  FixedMembers members{comm::Group()};
  EXPECT_FALSE(members.replaces());
  EXPECT_EQ(testing::error_of([&] { members.rejoin(); }).kind(), ErrorKind::kUnsupported);
}

// How long nobody has decided on members goes by the clock that was given: what follows from it (a checkpoint, and the
// end) need not be waited for.
TEST(HostMembers, CountsForHowLongNobodyIsInCharge) {
  const testing::TemporaryFolder folder;
  Supervised supervised;
  supervised.store = comm::make_file_store(folder / "store");
  supervised.founder = true;
  FakeClock clock;
  clock.advance(1h);  // since the machine's start; 0 would be "never"
  HostMembers members(supervised, comm::Group(), nullptr, clock);
  ASSERT_TRUE(members.roster().take_charge(this_process()));
  members.roster().leave_charge(this_process());
  members.meet();  // this worker decides by itself that it is the only member
  EXPECT_TRUE(members.members().leads());
  EXPECT_TRUE(members.wants_note(false));

  EXPECT_TRUE(testing::eventually([&] {
    clock.advance(1min);
    return members.abandoned_for() >= 1h;
  })) << "longer than this test has lasted";
  const std::chrono::nanoseconds before = members.abandoned_for();
  EXPECT_EQ(members.abandoned_for(), before) << "the clock has not moved";
  ASSERT_TRUE(members.roster().take_charge(this_process()));
  EXPECT_TRUE(testing::eventually([&] { return members.abandoned_for() == 0ns; }));
}

// --- What workers share

Supervised worker_of_two(const std::shared_ptr<comm::Store>& store, int seat) {
  Supervised supervised;
  supervised.store = store;
  supervised.seat = seat;
  supervised.seats = 2;
  supervised.founder = seat == 0;
  supervised.patience = 20s;
  return supervised;
}

TEST(OpenShared, WhoKeepsSomethingElseThereThanTheFirstIsRefused) {
  const comm::ArenaOptions wanted{.lanes = 2, .version_bytes = 100, .lane_bytes = 100};
  for (const bool first_has_arena : {true, false}) {
    const std::shared_ptr<comm::Store> store = comm::make_memory_store();
    std::optional<Supervised> first = worker_of_two(store, 0);
    std::optional<Supervised> second = worker_of_two(store, 1);
    const auto open = [&](std::optional<Supervised>& worker, bool arena) -> std::shared_ptr<comm::Roster> {
      if (arena) return open_shared<comm::Arena>(worker, comm::Group(), wanted);
      return open_shared<comm::Roster>(worker, comm::Group(), {});
    };
    const std::shared_ptr<comm::Roster> founded = open(first, first_has_arena);
    const std::unique_ptr<comm::RegionServer> server = serve_roster(*first, *founded);
    testing::expect_error(ErrorKind::kMismatch, "strategy, model, optimizer or lanes are not those of the first",
                          [&] { open(second, !first_has_arena); });
    EXPECT_EQ(open(second, first_has_arena)->nonce(), founded->nonce());
  }
}

TEST(OpenShared, WhoIsAppointedFounderKnowsIt) {
  const std::shared_ptr<comm::Store> store = comm::make_memory_store();
  store->set(comm::arena_key(0), comm::appointment(1));
  std::optional<Supervised> second = worker_of_two(store, 1);
  const std::shared_ptr<comm::Roster> founded = open_shared<comm::Roster>(second, comm::Group(), {});
  EXPECT_TRUE(second->founder);
  const HostMembers members(second, comm::Group(), founded);
  EXPECT_TRUE(members.founds());
  const std::unique_ptr<comm::RegionServer> server = serve_roster(*second, *founded);
  std::optional<Supervised> first = worker_of_two(store, 0);
  first->founder = false;
  EXPECT_EQ(open_shared<comm::Roster>(first, comm::Group(), {})->nonce(), founded->nonce());
  EXPECT_FALSE(first->founder);
}

// The store of all hosts while their coordinator is away: the first calls to set a value end without an answer.
class ClusterAway final : public comm::Store {
 public:
  int tries = 0;                                  // that find nobody
  std::function<void(std::string_view)> was_set;  // of a key

  void set(std::string_view key, std::string_view value) override {
    if (tries > 0) {
      --tries;
      throw Error(ErrorKind::kTimeout, "the coordinator does not answer");
    }
    store_->set(key, value);
    if (was_set) was_set(key);
  }
  std::string get(std::string_view key, const Deadline& deadline) override { return store_->get(key, deadline); }

 private:
  const std::shared_ptr<comm::Store> store_ = comm::make_memory_store();
};

// The one worker of the one host of a job that may have several; the test is its agent and the coordinator.
class MemberOfHosts : public ::testing::Test {
 protected:
  MemberOfHosts() {
    supervised_.store = comm::make_file_store(folder_ / "store");
    supervised_.founder = true;
    supervised_.host = HostPlace{cluster_, 1};
  }
  void make() {
    members_ = std::make_unique<HostMembers>(supervised_, comm::Group());
    ASSERT_TRUE(members_->roster().take_charge(this_process()));
  }
  void begin(std::uint64_t generation) {
    const control::JobGeneration job{generation, 1, {{1, "a", 0b1, 0, 1}}};
    supervised_.store->set(control::hosts_key(generation), job.to_text());
    members_->roster().begin_generation(generation, 0b1);
  }

  const testing::TemporaryFolder folder_;
  const std::shared_ptr<ClusterAway> cluster_ = std::make_shared<ClusterAway>();
  Supervised supervised_;
  std::unique_ptr<HostMembers> members_;
};

TEST_F(MemberOfHosts, MeetsTheOthersAlthoughTheCoordinatorIsAwayForAWhile) {
  make();
  begin(1);
  cluster_->tries = 3;
  members_->meet();
  EXPECT_EQ(members_->members().generation, 1U);
}

TEST_F(MemberOfHosts, TellsACoordinatorThatComesBackThatTheOthersWereLost) {
  supervised_.patience = 10s;
  make();
  begin(1);
  members_->meet();
  cluster_->tries = 3;
  cluster_->was_set = [&](std::string_view key) {
    if (key == control::broken_key(1)) begin(2);
  };
  members_->rejoin();
  EXPECT_EQ(members_->members().generation, 2U);
}

// What it holds can be saved then, and nobody else would decide.
TEST_F(MemberOfHosts, EndsItsWaitForAGenerationWhenItIsToldToEnd) {
  double grace_used = 0;
  supervised_.grace_used = [&] { return grace_used; };
  make();
  begin(1);
  members_->meet();
  cluster_->tries = 1'000'000;  // the coordinator is gone
  grace_used = kGraceForGeneration;
  testing::expect_error(ErrorKind::kTimeout, "told to end", [&] { members_->rejoin(); });
}

TEST_F(MemberOfHosts, AGenerationThatBeginsInTimeCountsAlthoughItIsToldToEnd) {
  double grace_used = 0;
  supervised_.grace_used = [&] { return grace_used; };
  make();
  begin(1);
  members_->meet();
  begin(2);
  grace_used = kGraceForGeneration / 2;
  members_->rejoin();
  EXPECT_EQ(members_->members().generation, 2U);
}

// Others who do not come are not waited for until the time is over.
TEST_F(MemberOfHosts, EndsItsWaitForTheOthersWhenItIsToldToEnd) {
  double grace_used = 0;
  supervised_.grace_used = [&] { return grace_used; };
  make();
  begin(1);
  members_->meet();
  const control::JobGeneration both{2, 2, {{1, "a", 0b1, 0, 1}, {2, "b", 0b1, 1, 2}}};
  supervised_.store->set(control::hosts_key(2), both.to_text());
  members_->roster().begin_generation(2, 0b1);
  cluster_->was_set = [&](std::string_view key) {
    if (key.find("came") != std::string_view::npos) grace_used = kGraceForOthers;
  };
  testing::expect_error(ErrorKind::kTimeout, "told to end", [&] { members_->rejoin(); });
}

}  // namespace
}  // namespace muster::strategies
