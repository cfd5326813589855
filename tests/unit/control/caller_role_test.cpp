// Who may call what: every call against every role, from a list written by hand.
#include "muster/control/caller_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "muster/control/audit.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using ::testing::HasSubstr;

TEST(CallerRole, EveryCallIsForTheRolesOfThisListAlone) {
  using enum CallerRole;
  const std::map<std::string, std::set<CallerRole>> expected{
      {"Status", {kCoordinator, kAgent, kUser, kReader}},
      {"Scale", {kCoordinator, kUser}},
      {"Stop", {kCoordinator, kUser}},
      {"Set", {kCoordinator, kUser}},
      {"Join", {kCoordinator, kAgent}},
      {"Report", {kCoordinator, kAgent}},
      {"StoreSet", {kCoordinator, kAgent}},
      {"StoreGet", {kCoordinator, kAgent}},
      {"Leave", {kCoordinator, kAgent}},
      {"HostStatus", {kCoordinator, kAgent}},
      {"HostScale", {kCoordinator, kAgent}},
      {"HostStop", {kCoordinator, kAgent}},
      {"HostSet", {kCoordinator, kAgent}},
      {"Catalog", {kCoordinator, kAgent}},
      {"ReadShard", {kCoordinator, kAgent}},
      {"Calls", {kCoordinator, kAgent}},
      {"Enrol", {kClient}},
      {"NextTask", {kClient}},
      {"ReadModel", {kClient}},
      {"SendUpdate", {kClient}},
      {"SecureStep", {kClient}},
      {"ListModels", {kClient}},
      {"Meet", {kClient}},
      {"ReadPoints", {kClient}},
      {"SendPoints", {kClient}},
      {"ReadPlaces", {kClient}},
      {"Exchange", {kClient}},
      {"GiveUp", {kClient}},
  };
  EXPECT_EQ(known_calls().size(), expected.size());
  for (const auto& [call, roles] : expected) {
    for (const CallerRole role : kCallerRoles) {
      const CallVerdict verdict = judge_call(role, call);
      EXPECT_EQ(verdict.allowed, roles.contains(role)) << to_string(role) << " " << call;
      EXPECT_EQ(verdict.reason.empty(), verdict.allowed) << to_string(role) << " " << call;
    }
  }
}

TEST(CallerRole, ACallThatTheTableDoesNotHaveIsForNobody) {
  for (const CallerRole role : kCallerRoles)
    for (const char* call : {"", "stop", "Stop ", "Shutdown", "/muster.control.v1.Control/Stop"})
      EXPECT_FALSE(judge_call(role, call).allowed) << call;
}

TEST(CallerRole, NamesAreReadBack) {
  for (const CallerRole role : kCallerRoles)
    EXPECT_EQ(caller_role_named(to_string(role)), role);
  EXPECT_EQ(caller_role_named("root"), std::nullopt);
  EXPECT_EQ(caller_role_named(""), std::nullopt);
}

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override { log_.open_file(folder_ / "log.txt"); }
  std::vector<std::string> lines() const {
    std::istringstream text(muster::testing::slurp(folder_ / "log.txt"));
    std::vector<std::string> result;
    for (std::string line; std::getline(text, line);)
      result.push_back(line);
    return result;
  }

  muster::testing::TemporaryFolder folder_;
  FakeClock clock_;
  Log log_{LogLevel::kOff};
  Audit audit_{log_, clock_};
};

TEST_F(AuditTest, SaysWhoWhatFromWhereAndWhyNot) {
  audit_.refused({"agent host-1", "Stop", "ipv4:10.0.0.3:4711"}, "Stop is not for the role \"agent\"");
  audit_.taken({"user alice", "Scale", "ipv4:10.0.0.9:1"});
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_THAT(lines()[0], HasSubstr("audit: refused Stop by agent host-1 from ipv4:10.0.0.3:4711: Stop is not for"));
  EXPECT_THAT(lines()[1], HasSubstr("audit: took Scale by user alice from ipv4:10.0.0.9:1"));
}

TEST_F(AuditTest, AFloodOfRefusalsIsCountedAndHidesNoCommand) {
  for (int i = 0; i < 1000; ++i)
    audit_.refused({.who = {}, .what = {}, .from = "ipv4:10.0.0.3:4711"}, "no TLS");
  EXPECT_EQ(lines().size(), 20u);
  audit_.taken({"user alice", "Scale", "ipv4:10.0.0.9:1"});
  EXPECT_EQ(lines().size(), 21u);
  clock_.advance(std::chrono::seconds(2));
  audit_.refused({.who = {}, .what = {}, .from = "ipv4:10.0.0.3:4711"}, "no TLS");
  ASSERT_EQ(lines().size(), 22u);
  EXPECT_THAT(lines()[21], HasSubstr("(980 more before it were not written)"));
}

TEST_F(AuditTest, WhatCallersSayCannotMakeALineOfItsOwn) {
  audit_.refused({"user a\naudit: took Stop", "St\x1bop", std::string(5000, 'x')}, "a\nb");
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_LT(lines()[0].size(), 500u);
  EXPECT_EQ(lines()[0].find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace muster::control
