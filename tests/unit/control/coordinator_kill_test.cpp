// kill -9 of the coordinator while commands come in: what was acknowledged is there, and nothing is there twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/control/access_token.h"
#include "muster/control/control_client.h"
#include "support/command.h"
#include "support/eventually.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using muster::testing::Command;
using muster::testing::TemporaryFolder;

struct Sent {
  std::string assignment;
  std::string request;
};

TEST(CoordinatorKill, NoAcknowledgedCommandIsLostAndNoneTakesEffectTwice) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(store_file(folder.path()));  // so that a client finds a record from the start
  RandomStream chance({.seed = 5});
  std::vector<std::string> acknowledged;
  std::vector<Sent> unknown;
  std::uint64_t epoch = 0;
  for (int round = 0; round < 6; ++round) {
    Command coordinator({COORDINATOR_PROCESS, folder.path().string()});
    const ControlClient client(folder.path());
    ASSERT_TRUE(testing::eventually([&] {
      const auto lease = client.record().lease();
      return lease && lease->epoch != epoch;
    })) << "no coordinator takes the job";
    epoch = client.record().lease()->epoch;
    // What got no answer is sent again as it was.
    for (const Sent& sent : unknown) {
      client.set(sent.assignment, Deadline::after(std::chrono::seconds(20)), sent.request);
      acknowledged.push_back(sent.assignment);
    }
    unknown.clear();
    std::thread killer([pid = coordinator.pid(), wait = std::chrono::microseconds(20'000 + chance.below(60'000))] {
      std::this_thread::sleep_for(wait);  // sleeps: the kill falls anywhere among the commands
      ::kill(pid, SIGKILL);
    });
    for (int i = 0; unknown.empty(); ++i) {
      const Sent sent{"optimizer.lr=0." + std::to_string(round) + std::to_string(i), ControlClient::new_request()};
      try {
        client.set(sent.assignment, Deadline::after(std::chrono::seconds(20)), sent.request);
        acknowledged.push_back(sent.assignment);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
        unknown.push_back(sent);
      }
    }
    killer.join();
    coordinator.wait();
  }
  std::vector<std::string> found;
  for (const Change& change : JobRecord(make_sqlite_store(store_file(folder.path()))).changes())
    found.push_back(change.assignment);
  // The last round's unanswered one may be there or not.
  if (!found.empty() && found.back() == unknown.front().assignment) found.pop_back();
  EXPECT_EQ(found, acknowledged);
  EXPECT_EQ(epoch, 6u);
}

}  // namespace
}  // namespace muster::control
