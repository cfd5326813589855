// Hosts that do not hear each other, as tables: who goes, and why.
#include "muster/control/host_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Hosts 1 to `count`, all of whom hear each other but for `cuts`.
std::vector<LinkedHost> hosts(std::uint64_t count, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& cuts) {
  std::vector<LinkedHost> made;
  for (std::uint64_t number = 1; number <= count; ++number) {
    LinkedHost host{number, std::string(1, static_cast<char>('a' + number - 1)), {.looks = true}};
    for (std::uint64_t other = 1; other <= count; ++other) {
      if (other == number) continue;
      const bool cut = std::ranges::any_of(cuts, [&](const auto& pair) {
        return (pair.first == number && pair.second == other) || (pair.second == number && pair.first == other);
      });
      (cut ? host.links.unheard : host.links.heard).push_back(other);
    }
    made.push_back(host);
  }
  return made;
}

std::vector<std::uint64_t> numbers(const std::vector<UnheardHost>& gone) {
  std::vector<std::uint64_t> result;
  for (const UnheardHost& host : gone)
    result.push_back(host.number);
  return result;
}

TEST(GiveUpUnheard, NobodyGoesWhileAllHearEachOther) {
  EXPECT_THAT(give_up_unheard({}), IsEmpty());
  EXPECT_THAT(give_up_unheard(hosts(1, {})), IsEmpty());
  EXPECT_THAT(give_up_unheard(hosts(4, {})), IsEmpty());
}

TEST(GiveUpUnheard, OfTwoWhoHearAsManyTheOneThatCameLastGoes) {
  const std::vector<UnheardHost> gone = give_up_unheard(hosts(3, {{2, 3}}));
  EXPECT_THAT(numbers(gone), ElementsAre(3));
  EXPECT_THAT(gone[0].reason, AllOf(HasSubstr("and host b (2) do not hear each other"), HasSubstr("1 of 2 others"),
                                    HasSubstr("came last")));
  EXPECT_THAT(numbers(give_up_unheard(hosts(2, {{1, 2}}))), ElementsAre(2));
}

TEST(GiveUpUnheard, TheOneThatFewerHearGoesAlsoWhenItCameFirst) {
  const std::vector<UnheardHost> gone = give_up_unheard(hosts(4, {{1, 3}, {1, 4}}));
  EXPECT_THAT(numbers(gone), ElementsAre(1));
  EXPECT_THAT(gone[0].reason, AllOf(HasSubstr("host c (3) and host d (4)"), Not(HasSubstr("came last"))));
}

TEST(GiveUpUnheard, ThoseWhoAreLeftAllHearEachOther) {
  EXPECT_THAT(numbers(give_up_unheard(hosts(3, {{1, 2}, {1, 3}, {2, 3}}))), ElementsAre(3, 2));
  EXPECT_THAT(numbers(give_up_unheard(hosts(5, {{1, 2}, {3, 4}}))), ElementsAre(4, 2));
}

TEST(GiveUpUnheard, OneEndThatDoesNotHearIsEnough) {
  std::vector<LinkedHost> both = hosts(2, {{1, 2}});
  both[0].links.unheard.clear();
  EXPECT_THAT(numbers(give_up_unheard(both)), ElementsAre(2));
}

TEST(HearEachOther, NeedsAnAnswerOnBothSidesUnlessOneDoesNotLook) {
  std::vector<LinkedHost> both = hosts(2, {});
  EXPECT_TRUE(hear_each_other(both[0], both[1]));
  both[1].links.heard.clear();
  EXPECT_FALSE(hear_each_other(both[0], both[1]));
  EXPECT_FALSE(hear_each_other(both[1], both[0]));
  both[1].links.looks = false;
  EXPECT_TRUE(hear_each_other(both[0], both[1]));
}

}  // namespace
}  // namespace muster::control
