// What clients keep: read as of the round, whatever a killed run has written ahead.
#include "muster/federated/client_states.h"

#include <fstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using ::testing::ElementsAre;

std::vector<float> read(const ClientStates& states, std::uint64_t client, std::uint64_t round) {
  std::vector<float> state(2, -1);
  states.read(client, round, state);
  return state;
}

TEST(ClientStates, AreThoseOfBeforeTheRound) {
  const testing::TemporaryFolder folder;
  const ClientStates states(folder / "clients");
  EXPECT_THAT(read(states, 300, 4), ElementsAre(0, 0));
  states.write(300, 4, std::vector<float>{1, 2});
  EXPECT_THAT(read(states, 300, 4), ElementsAre(0, 0)) << "round 4 is done again";
  EXPECT_THAT(read(states, 300, 5), ElementsAre(1, 2));
  EXPECT_THAT(read(states, 44, 5), ElementsAre(0, 0)) << "another client in the same folder";
  states.write(300, 9, std::vector<float>{3, 4});
  EXPECT_THAT(read(states, 300, 9), ElementsAre(1, 2)) << "round 9 is done again";
  states.write(300, 11, std::vector<float>{5, 6});
  EXPECT_THAT(read(states, 300, 11), ElementsAre(3, 4));
  EXPECT_THAT(read(states, 300, 12), ElementsAre(5, 6));
}

TEST(ClientStates, OfAnotherModelAreRefused) {
  const testing::TemporaryFolder folder;
  const ClientStates states(folder / "clients");
  states.write(1, 0, std::vector<float>{1, 2, 3});
  testing::expect_error(ErrorKind::kDamaged, "has 12 bytes", [&] { read(states, 1, 1); });
}

TEST(ClientStates, ThatCannotBeReadAreNotNone) {
  const testing::TemporaryFolder folder;
  const ClientStates states(folder / "clients");
  // A link to itself is what the system cannot look at, for any user.
  std::filesystem::create_symlink("07", folder / "clients" / "07");
  testing::expect_error(ErrorKind::kIo, "clients/07/7", [&] { read(states, 7, 1); });
}

}  // namespace
}  // namespace muster::federated
