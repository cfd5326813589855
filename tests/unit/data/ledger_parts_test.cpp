// Copies of a ledger's files: byte by byte, from where they end, never with a gap, and not of files that are here.
#include "muster/data/ledger_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/data/ledger.h"
#include "muster/data/ledger_check.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LedgerPartsTest : public ::testing::Test {
 protected:
  // Four samples an epoch, two lanes a step.
  static std::filesystem::path record(const std::filesystem::path& folder, int worker, std::uint64_t lane) {
    LedgerWriter writer(folder, {.worker = worker, .epoch_samples = 4});
    for (std::uint64_t step = 0; step < 2; ++step) {
      const std::vector<std::uint64_t> ids{2 * step + lane};
      writer.record_lane(0, step, lane, ids);
      writer.record_commit(0, step, 2);
    }
    return writer.path();
  }
  static void copy(LedgerParts& from, LedgerParts& to) {
    for (const LedgerPart& part : from.list())
      to.append(part, 0, from.read(part, 0, part.bytes));
  }

  testing::TemporaryFolder folder_;
  const std::filesystem::path here_ = folder_ / "here";
  const std::filesystem::path there_ = folder_ / "there";
};

TEST_F(LedgerPartsTest, EachHostCanProveAllOfItAlone) {
  const std::filesystem::path mine = record(here_, 0, 0);
  const std::filesystem::path theirs = record(there_, 64, 1);
  EXPECT_TRUE(check_ledger(here_).violation) << "the other lane is missing";
  LedgerParts parts(here_);
  LedgerParts others(there_);
  copy(others, parts);
  copy(parts, others);
  for (const std::filesystem::path& folder : {here_, there_}) {
    const LedgerReport report = check_ledger(folder);
    EXPECT_FALSE(report.violation) << *report.violation;
    EXPECT_EQ(report.steps, 2U);
    EXPECT_EQ(report.whole_epochs, 1U);
  }
  ASSERT_THAT(parts.list(), SizeIs(2));
  for (const LedgerPart& part : parts.list()) {
    EXPECT_EQ(part.copy, part.name != mine.filename());
    if (!part.copy) continue;
    EXPECT_EQ(testing::slurp(theirs).size(), part.bytes);
  }
  copy(others, parts);
  EXPECT_THAT(parts.list(), SizeIs(2)) << "what is there is not copied again";
}

TEST_F(LedgerPartsTest, ACopyGrowsFromWhereItEnds) {
  const std::filesystem::path file = record(there_, 64, 1);
  LedgerParts others(there_);
  LedgerParts parts(here_);
  const LedgerPart part = others.list().at(0);
  const auto piece = [&](std::uint64_t from, std::uint64_t to) { return others.read(part, from, to); };
  parts.append(part, 0, piece(0, 20));
  EXPECT_THAT(parts.list(), IsEmpty()) << "its header is not whole";
  parts.append(part, 10, piece(10, 60));
  EXPECT_EQ(testing::error_of([&] { parts.append(part, 61, piece(61, 62)); }).kind(), ErrorKind::kMismatch) << "a gap";
  parts.append(part, 0, piece(0, 50));
  ASSERT_THAT(parts.list(), ElementsAre(LedgerPart{part.id, part.name, 60, true}));
  parts.append(part, 60, piece(60, part.bytes));
  const LedgerPart copied = parts.list().at(0);
  EXPECT_EQ(parts.read(copied, 0, copied.bytes), others.read(part, 0, part.bytes));
}

TEST_F(LedgerPartsTest, AFileOfTheSameNameIsAnotherOneAndAStrangeNameIsRefused) {
  record(here_, 0, 0);
  record(there_, 0, 1);
  LedgerParts parts(here_);
  LedgerParts others(there_);
  copy(others, parts);
  EXPECT_THAT(parts.list(), SizeIs(2));
  EXPECT_FALSE(check_ledger(here_).violation);
  for (const char* name : {"../worker-000-0000.ledger", "worker-000-0000.ledger/x", "", "log.txt"})
    EXPECT_EQ(testing::error_of([&] { parts.append({.id = 1, .name = name}, 0, {}); }).kind(), ErrorKind::kMismatch);
}

TEST_F(LedgerPartsTest, HostsThatSeeOneFolderCopyNothing) {
  record(here_, 0, 0);
  LedgerParts one(here_);
  LedgerParts other(here_);
  const LedgerPart part = one.list().at(0);
  other.append(part, 0, one.read(part, 0, part.bytes));
  EXPECT_THAT(other.list(), ElementsAre(part));
}

TEST_F(LedgerPartsTest, AFolderThatIsNotThereHasNone) {
  EXPECT_THAT(LedgerParts(folder_ / "none").list(), IsEmpty());
}

}  // namespace
}  // namespace muster::data
