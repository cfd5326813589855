// The bodies of Membership by themselves, without a strategy: on clocks that are turned by hand.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/process.h"
#include "muster/strategies/members/fixed_members.h"
#include "muster/strategies/members/host_members.h"
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
  HostMembers members(supervised, comm::Group(), comm::ArenaOptions{}, clock);
  ASSERT_TRUE(members.arena().take_charge(this_process()));
  members.arena().leave_charge(this_process());
  members.meet();  // this worker decides by itself that it is the only member
  EXPECT_TRUE(members.members().leads());
  EXPECT_TRUE(members.wants_note(false));

  EXPECT_TRUE(testing::eventually([&] {
    clock.advance(1min);
    return members.abandoned_for() >= 1h;
  })) << "longer than this test has lasted";
  const std::chrono::nanoseconds before = members.abandoned_for();
  EXPECT_EQ(members.abandoned_for(), before) << "the clock has not moved";
  ASSERT_TRUE(members.arena().take_charge(this_process()));
  EXPECT_TRUE(testing::eventually([&] { return members.abandoned_for() == 0ns; }));
}

}  // namespace
}  // namespace muster::strategies
