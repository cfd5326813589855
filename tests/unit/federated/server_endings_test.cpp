// Rounds of clients that leave, because the budgets of their samples are spent: nobody waits for them, and a server
// that nobody can come to any more says so.
#include <atomic>
#include <cmath>
#include <fstream>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/clock.h"
#include "muster/federated/chosen_submodels.h"
#include "muster/federated/client_lock.h"
#include "muster/federated/left_clients.h"
#include "support/errors.h"
#include "support/sandbox.h"
#include "unit/federated/served.h"

namespace muster::federated {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using testing::expect_error;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSpent = "its budget is spent";

class ServerEndings : public ::testing::Test {
 protected:
  std::vector<float> model() const { return StateFile(folder_ / "state.safetensors").read()->model; }
  const testing::TemporaryFolder folder_;
};

TEST_F(ServerEndings, WhoLeavesIsNotWaitedForAndNotAskedAgain) {
  Options options = live(3, 3);
  options.silence_seconds = 3600;
  Served served(options, folder_.path());
  RoundServer& server = served.server();
  {
    OpenRound round(served, 3);
    send(server, "c0", 0, update_of(1));
    server.leave("c1", kSpent);
    send(server, "c2", 0, update_of(1));
    const RoundReport report = round.end();
    EXPECT_EQ(report.plan.counts.size(), 2U);
    EXPECT_EQ(report.plan.dropped, 1U);
  }
  EXPECT_THAT(served.told(), HasSubstr("client 1 (c1) leaves: its budget is spent"));
  EXPECT_FALSE(server.ending()) << "two are left, also where the job waits for three";
  std::jthread computing([&] { EXPECT_EQ(served.round().plan.asked, 2U); });
  while (server.standing().asked == 0) {
    for (const char* name : {"c0", "c2"})
      server.next_task(name, 5, std::chrono::milliseconds(1));
  }
  send(server, "c0", 1, update_of(1));
  send(server, "c2", 1, update_of(1));
}

TEST_F(ServerEndings, WhenAllHaveLeftItEndsAlsoWhenItWasStartedAgain) {
  const Options options = live(2, 2);
  {
    Served served(options, folder_.path());
    OpenRound round(served, 2);
    served.server().leave("c0", kSpent);
    served.server().leave("c1", kSpent);
    EXPECT_FALSE(served.server().ending()) << "the round that is under way is ended first";
    EXPECT_THAT(round.end().plan.reason, HasSubstr("nothing changes"));
    EXPECT_THAT(served.server().ending().value_or(""), AllOf(HasSubstr("2 of 2 clients have left"), HasSubstr(kSpent)));
  }
  Served again(options, folder_.path());
  EXPECT_TRUE(again.server().ending());
  expect_error(ErrorKind::kInterrupted, "have left", [&] { again.round(); });
  // Whoever has got a larger budget is welcome.
  again.server().next_task("c0", 5, std::chrono::milliseconds(0));
  EXPECT_FALSE(again.server().ending());
  EXPECT_THAT(again.told(), HasSubstr("client 0 (c0) is back"));
}

TEST_F(ServerEndings, WhoHasNotEnrolledYetIsGivenSomeTimeToCome) {
  Options options = live(5, 2);
  options.silence_seconds = 60;
  FakeClock clock;
  Served served(options, folder_.path(), clock);
  RoundServer& server = served.server();
  for (const char* name : {"c0", "c1"}) {
    server.enrol(name, {});
    server.leave(name, kSpent);
  }
  EXPECT_FALSE(server.ending());
  clock.advance(std::chrono::seconds(61));
  EXPECT_TRUE(server.ending());
}

// A buffer that is not full waits for whoever comes; but not for those who have left.
TEST_F(ServerEndings, ABufferIsFullWhenNobodyIsLeftToFillIt) {
  Options options = live(3, 3);
  options.algorithm = "fedbuff";
  Served served(options, folder_.path());
  OpenRound round(served, 3);
  served.server().leave("c1", kSpent);
  served.server().leave("c2", kSpent);
  send(served.server(), "c0", 0, update_of(2));
  EXPECT_EQ(round.end().plan.counts.size(), 1U);
  EXPECT_THAT(model(), Each(FloatNear(0.5F + 2, 1e-6F)));
}

// Of those who remain one lost its power: what the other one has sent is not kept waiting for it.
TEST_F(ServerEndings, ABufferDoesNotWaitForWhoIsSilentWhenOthersHaveLeft) {
  Options options = live(5, 3);
  options.algorithm = "fedbuff";
  options.silence_seconds = 5;
  options.deadline_seconds = 100;
  FakeClock clock;
  Served served(options, folder_.path(), clock);
  std::atomic<bool> passes = false;
  OpenRound round(served, 5, [&] {
    if (passes) clock.advance(std::chrono::seconds(1));
    return true;
  });
  for (const char* name : {"c0", "c1", "c2"})
    served.server().leave(name, kSpent);
  EXPECT_EQ(send(served.server(), "c3", 0, update_of(2)).verdict, UpdateAnswer::Verdict::kAccepted);
  passes = true;
  const RoundReport report = round.end();
  EXPECT_EQ(report.plan.counts.size(), 1U);
  EXPECT_LT(report.seconds, 100) << "and not at the deadline";
  EXPECT_THAT(model(), Each(FloatNear(0.5F + 2, 1e-6F)));
}

TEST_F(ServerEndings, WhoHasNotEnrolledIsNotWaitedForForEverOnceOthersHaveLeft) {
  Options options = live(6, 3);
  options.wait_for = {};
  options.silence_seconds = 60;
  FakeClock clock;
  Served served(options, folder_.path(), clock);
  RoundServer& server = served.server();
  const auto waits = [&] {
    server.next_task("c3", 5, std::chrono::milliseconds(0));
    return server.standing().doing;
  };
  for (const char* name : {"c0", "c1", "c2", "c3"})
    server.enrol(name, {});
  EXPECT_THAT(waits(), HasSubstr("1 of 3 clients are there"));
  clock.advance(std::chrono::seconds(61));
  EXPECT_THAT(waits(), HasSubstr("1 of 3 clients are there")) << "nobody has left: whoever is late is waited for";
  for (const char* name : {"c0", "c1", "c2"})
    server.leave(name, kSpent);
  EXPECT_THAT(waits(), HasSubstr("1 of 3 clients are there"));
  clock.advance(std::chrono::seconds(61));
  EXPECT_THAT(waits(), Not(HasSubstr("clients are there")));
  EXPECT_FALSE(server.ending()) << "one is left, and is enough for a round";
}

TEST_F(ServerEndings, ItEndsWhenFewerAreLeftThanARoundNeeds) {
  Options options = live(6, 3);
  options.least = 2;
  options.silence_seconds = 60;
  FakeClock clock;
  Served served(options, folder_.path(), clock);
  for (const char* name : {"c0", "c1", "c2"})
    served.server().enrol(name, {});
  for (const char* name : {"c0", "c1"})
    served.server().leave(name, kSpent);
  EXPECT_FALSE(served.server().ending()) << "others may still come";
  clock.advance(std::chrono::seconds(61));
  EXPECT_THAT(served.server().ending().value_or(""), HasSubstr("too few remain"));
}

TEST_F(ServerEndings, ARoundThatWaitsForLongSaysSo) {
  FakeClock clock;
  Served served(live(2, 2), folder_.path(), clock);
  std::atomic<bool> on = true;
  std::jthread computing([&] {
    expect_error(ErrorKind::kInterrupted, "stopped",
                 [&] { served.server().round([&] { return on.load(); }, [](State&, const RoundReport&) {}); });
  });
  served.server().enrol("c0", {});
  while (served.told().find("round 1 waits: 0 of 2 clients are there") == std::string::npos)
    clock.advance(std::chrono::seconds(1));
  on = false;
}

// Below the threshold no sum is unmasked: parts of noise of clients have not come with it, and nothing is added.
TEST_F(ServerEndings, WithNoiseOfClientsARoundOfTooFewChangesNothing) {
  for (const char* at : {"clients", "server"}) {
    const std::filesystem::path folder = folder_ / at;
    std::filesystem::create_directory(folder);
    Options options = secure_options(4, 4);
    options.noise = 1;
    options.noise_at = at;
    options.secure_threshold = 3;
    options.silence_seconds = 3600;
    Served served(options, folder);
    OpenRound round(served, 4);
    for (const char* name : {"c0", "c1", "c2", "c3"})
      served.server().leave(name, kSpent);
    const RoundReport report = round.end();
    EXPECT_TRUE(report.plan.counts.empty()) << at;
    EXPECT_FALSE(report.client_loss);
    EXPECT_THAT(report.plan.reason, HasSubstr("nothing is revealed"));
    const bool moves = StateFile(folder / "state.safetensors").read()->model != std::vector<float>(kSize, 0.5F);
    EXPECT_EQ(moves, options.noise_at == "server") << at;
    EXPECT_EQ(report.plan.reason.find("noise alone") != std::string::npos, moves) << at;
  }
}

// What clients say no loss of has none, and what others say is the mean of theirs.
TEST_F(ServerEndings, ALossThatNobodySaysIsNotThere) {
  Served served(live(2, 2), folder_.path());
  const auto say = [&](const std::string& name, std::uint64_t round, double loss) {
    const std::vector<float> update = update_of(1);
    const auto bytes = std::as_bytes(std::span(update));
    served.server().send_update(name, {.round = round,
                                       .digest = sha256(bytes),
                                       .total_bytes = bytes.size(),
                                       .data = bytes,
                                       .samples = 5,
                                       .loss = loss});
  };
  {
    OpenRound round(served, 2);
    say("c0", 0, std::nan(""));
    say("c1", 0, 0.25);
    EXPECT_EQ(round.end().client_loss, 0.25);
  }
  OpenRound round(served, 2);
  say("c0", 1, std::nan(""));
  say("c1", 1, std::nan(""));
  EXPECT_FALSE(round.end().client_loss);
}

TEST(LeftClients, AreThoseOfTheFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder / "left.json";
  {
    LeftClients left(path);
    EXPECT_TRUE(left.add(7, kSpent));
    EXPECT_FALSE(left.add(7, "again"));
    EXPECT_TRUE(left.add(2, "another reason"));
    EXPECT_TRUE(left.remove(2));
    EXPECT_FALSE(left.remove(2));
  }
  const LeftClients read(path);
  EXPECT_EQ(read.size(), 1U);
  EXPECT_TRUE(read.contains(7));
  EXPECT_EQ(read.a_reason(), kSpent);
  std::ofstream(path) << "[[1]]";
  expect_error(ErrorKind::kDamaged, "no list of clients", [&] { const LeftClients damaged(path); });
}

// A link to itself is what the system cannot look at, for any user.
std::filesystem::path unreadable(const std::filesystem::path& path) {
  std::filesystem::create_symlink(path.filename(), path);
  return path;
}

// A budget that cannot be read may be spent: nothing is trained, and nothing is written over it.
TEST_F(ServerEndings, ABudgetThatCannotBeReadIsNoNewOne) {
  Served served(live(1, 1), folder_.path());
  ClientOptions options;
  options.name = "c0";
  options.states = folder_ / "states";
  options.privacy.noise = 1;
  options.ledger = unreadable(folder_ / "c0.privacy.json");
  std::atomic<bool> on = true;
  std::jthread computing(
      [&] { expect_error(ErrorKind::kInterrupted, "stopped", [&] { served.round([&] { return on.load(); }); }); });
  Quadratic training;
  FederatedClient client(served.server(), options);
  expect_error(ErrorKind::kIo, options.ledger.string(), [&] {
    client.run(client.enrol({}, kOn), training, {0, 1, 2}, [&] { return served.server().rounds() == 0; });
  });
  on = false;
  EXPECT_TRUE(std::filesystem::is_symlink(options.ledger));
}

TEST(FilesOfARun, ThatCannotBeReadAreNoBeginning) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = unreadable(folder / "left.json");
  expect_error(ErrorKind::kIo, path.string(), [&] { const LeftClients left(path); });
  expect_error(ErrorKind::kIo, path.string(), [&] { read_chosen_submodels(path, 1); });
  expect_error(ErrorKind::kIo, path.string(), [&] { StateFile(path).read(); });
  EXPECT_TRUE(read_chosen_submodels(folder / "none.json", 1).empty());
}

TEST(ClientLock, IsHeldByOneAtATimeUnderEachName) {
  const testing::TemporaryFolder folder;
  {
    const ClientLock first(folder / "state", "a");
    expect_error(ErrorKind::kMismatch, "another process is the client a", [&] { ClientLock(folder / "state", "a"); });
    const ClientLock other_name(folder / "state", "b");
    const ClientLock other_folder(folder / "elsewhere", "a");
  }
  const ClientLock again(folder / "state", "a");
}

}  // namespace
}  // namespace muster::federated
