// Rates and seeds to moments of faults, as a pure function.
#include "muster/cli/chaos/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "muster/base/error.h"

namespace muster::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(FaultRatesTest, OneRateIsSharedOrEachHasItsOwn) {
  EXPECT_THAT(parse_faults("kill,stop", 6), ElementsAre(Pair(Fault::kKill, 3), Pair(Fault::kStop, 3)));
  EXPECT_THAT(parse_faults("kill=12,stop=0.5", 6), ElementsAre(Pair(Fault::kKill, 12), Pair(Fault::kStop, 0.5)));
  EXPECT_THAT(parse_faults("coordinator", 2), ElementsAre(Pair(Fault::kCoordinator, 2)));
}

TEST(FaultRatesTest, HostsHaveFaultsOfTheirOwn) {
  EXPECT_THAT(parse_faults("host=2,split=1", 6, kHostFaults),
              ElementsAre(Pair(Fault::kHost, 2), Pair(Fault::kSplit, 1)));
  EXPECT_THROW(parse_faults("host", 6), Error) << "of one host";
  EXPECT_THROW(parse_faults("kill", 6, kHostFaults), Error);
}

TEST(FaultRatesTest, MistakesAreNamed) {
  const auto told = [](const char* text) {
    try {
      parse_faults(text, 6);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidInput) << text;
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(told("kil"), HasSubstr("did you mean \"kill\"?"));
  EXPECT_THAT(told(""), HasSubstr("no fault \"\""));
  EXPECT_THAT(told("kill,"), HasSubstr("no fault \"\""));
  EXPECT_THAT(told("kill,kill"), HasSubstr("stands twice"));
  EXPECT_THAT(told("kill=12,stop"), HasSubstr("some have none"));
  for (const char* text : {"kill=", "kill=0", "kill=-1", "kill=many", "kill=1e9", "kill=nan", "kill=1 "})
    EXPECT_THAT(told(text), HasSubstr("is no rate")) << text;
}

std::vector<PlannedFault> first(FaultPlan plan, std::size_t count) {
  std::vector<PlannedFault> faults;
  for (std::size_t i = 0; i < count; ++i)
    faults.push_back(plan.next());
  return faults;
}

TEST(FaultPlanTest, EachKindComesOnceInEachOfItsIntervals) {
  int kills = 0;
  int stops = 0;
  double last = 0;
  for (const PlannedFault& fault : first(FaultPlan({{Fault::kKill, 12}, {Fault::kStop, 2}}, 5), 140)) {
    EXPECT_GE(fault.at, last);
    last = fault.at;
    int& count = fault.fault == Fault::kKill ? kills : stops;
    const double interval = fault.fault == Fault::kKill ? 5 : 30;
    EXPECT_GE(fault.at, interval * count + interval / 4);
    EXPECT_LE(fault.at, interval * count + interval * 3 / 4);
    ++count;
  }
  EXPECT_EQ(kills, 120);
  EXPECT_EQ(stops, 20);
}

TEST(FaultPlanTest, TheSeedDecidesAndNothingElse) {
  const FaultRates rates{{Fault::kKill, 30}, {Fault::kOom, 4}};
  const auto same = first(FaultPlan(rates, 1), 50);
  const auto again = first(FaultPlan(rates, 1), 50);
  const auto other = first(FaultPlan(rates, 2), 50);
  int equal = 0;
  for (std::size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i].at, again[i].at);
    EXPECT_EQ(same[i].draw, again[i].draw);
    equal += same[i].draw == other[i].draw ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

}  // namespace
}  // namespace muster::cli
