// Names and numbers of clients: given once, kept through a restart and through half a line.
#include "muster/federated/enrolments.h"

#include <fstream>

#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using testing::expect_error;

TEST(Enrolments, ANameHasOneNumberAndKeepsItThroughARestart) {
  const testing::TemporaryFolder folder;
  {
    Enrolments enrolments(folder / "clients.txt", 4);
    EXPECT_EQ(enrolments.enrol("a", std::nullopt), 0U);
    EXPECT_EQ(enrolments.enrol("b", 2), 2U);
    EXPECT_EQ(enrolments.enrol("c", std::nullopt), 1U);
    EXPECT_EQ(enrolments.enrol("b", std::nullopt), 2U);
  }
  std::ofstream(folder / "clients.txt", std::ios::app) << "3 d";  // killed while it wrote
  Enrolments again(folder / "clients.txt", 4);
  EXPECT_EQ(again.size(), 3U);
  EXPECT_EQ(again.number_of("b"), 2U);
  EXPECT_EQ(again.number_of("d"), std::nullopt);
  EXPECT_EQ(again.name_of(1), "c");
  EXPECT_EQ(again.enrol("e", std::nullopt), 3U);
  EXPECT_EQ(testing::slurp(folder / "clients.txt"), "0 a\n2 b\n1 c\n3 e\n");
}

TEST(Enrolments, RefusesWhatWouldMakeTwoOfOne) {
  const testing::TemporaryFolder folder;
  Enrolments enrolments(folder / "clients.txt", 2);
  enrolments.enrol("a", 1);
  expect_error(ErrorKind::kInvalidInput, "client 1 is a", [&] { enrolments.enrol("b", 1); });
  expect_error(ErrorKind::kInvalidInput, "a is client 1", [&] { enrolments.enrol("a", 0); });
  expect_error(ErrorKind::kInvalidInput, "the job is for 2", [&] { enrolments.enrol("b", 2); });
  for (const char* name : {"", "a b", "../x", ".", "..", "a\n7 b"})
    expect_error(ErrorKind::kInvalidInput, "no name", [&] { enrolments.enrol(name, std::nullopt); });
  enrolments.enrol("b", std::nullopt);
  expect_error(ErrorKind::kInvalidInput, "all 2 clients", [&] { enrolments.enrol("c", std::nullopt); });
}

TEST(Enrolments, RefusesAFileThatIsNone) {
  const testing::TemporaryFolder folder;
  for (const char* text : {"0\n", "x a\n", "0 a\n0 b\n", "0 a\n1 a\n", "\n", "0 ../a\n"}) {
    std::ofstream(folder / "clients.txt") << text;
    expect_error(ErrorKind::kDamaged, "clients.txt", [&] { Enrolments(folder / "clients.txt", 9); });
  }
}

}  // namespace
}  // namespace muster::federated
