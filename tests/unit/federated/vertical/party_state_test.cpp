// What a party keeps on its disk: damage is noticed, another table is refused, another process is kept out, and what a
// file system refuses is an error with the path.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/federated/vertical/checked_tensors.h"
#include "muster/federated/vertical/party_files.h"
#include "muster/federated/vertical/party_seat.h"
#include "support/errors.h"
#include "support/sandbox.h"

namespace muster::federated {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::slurp;
using testing::spill;

TableMark table_of(std::uint64_t rows) {
  return {.rows = rows, .columns = 3, .ids = std::string(64, 'a'), .content = std::string(64, 'b')};
}

class PartyState : public ::testing::Test {
 protected:
  void write_checkpoint(std::uint64_t step) const {
    const std::vector<float> numbers{1, 2, static_cast<float>(step)};
    const model::TensorView tensor{.name = "numbers", .shape = {3}, .data = std::as_bytes(std::span(numbers))};
    write_checked(files_.checkpoint(step), std::span(&tensor, 1));
  }
  // Turns a bit of the last byte, which is data.
  static void damage(const std::filesystem::path& path) {
    std::string bytes = slurp(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    spill(path, bytes);
  }
  std::vector<std::uint64_t> whole() {
    return files_.whole_checkpoints([this](const std::string& line) { told_.push_back(line); });
  }

  const testing::TemporaryFolder folder_;
  const PartyFiles files_{folder_ / "state/run/bank"};
  std::vector<std::string> told_;
};

TEST_F(PartyState, AnAlignmentComesBackForTheTableThatItWasMadeFor) {
  EXPECT_FALSE(files_.alignment(table_of(5)));
  const Alignment kept{.name = "a", .table = table_of(5), .train_rows = 2, .rows = {4, 0, 2}};
  files_.keep(kept);
  EXPECT_EQ(files_.alignment(table_of(5)), kept);
}

TEST_F(PartyState, AnotherTableIsRefusedWithBothAndWhatToDo) {
  files_.keep({.name = "a", .table = table_of(5), .train_rows = 2, .rows = {4, 0, 2}});
  TableMark other = table_of(5);
  other.content = std::string(64, 'c');
  const Error error = error_of([&] { files_.alignment(other); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("5 rows, 3 columns, ids aaaaaaaa, values cccccccc now"),
                                     HasSubstr("5 rows, 3 columns, ids aaaaaaaa, values bbbbbbbb then")));
  EXPECT_THAT(error.remedy(), HasSubstr("table of then"));
  expect_error(ErrorKind::kMismatch, "6 rows", [&] { files_.alignment(table_of(6)); });
}

TEST_F(PartyState, ADamagedAlignmentIsAnErrorWithWhatToDo) {
  files_.keep({.name = "a", .table = table_of(5), .train_rows = 2, .rows = {4, 0, 2}});
  damage(files_.folder() / "alignment.safetensors");
  const Error error = error_of([&] { files_.alignment(table_of(5)); });
  EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("checksum"), HasSubstr("alignment.safetensors"), HasSubstr("from a copy")));
}

TEST_F(PartyState, OfCheckpointsThoseThatAreWholeCount) {
  for (const std::uint64_t step : {20, 5, 100})
    write_checkpoint(step);
  EXPECT_THAT(whole(), ElementsAre(5, 20, 100));
  damage(files_.checkpoint(100));
  spill(files_.checkpoint(5), "");
  EXPECT_THAT(whole(), ElementsAre(20));
  ASSERT_EQ(told_.size(), 2);
  EXPECT_THAT(told_[1], AllOf(HasSubstr("step-100.safetensors"), HasSubstr("left out")));
}

TEST_F(PartyState, WhereNoCheckpointIsWholeNothingIsGuessed) {
  EXPECT_TRUE(whole().empty());
  write_checkpoint(20);
  damage(files_.checkpoint(20));
  const Error error = error_of([&] { whole(); });
  EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("no checkpoint is whole"), HasSubstr("step-20"), HasSubstr("from a copy")));
}

// After a restart at an earlier step newer ones of before are there still.
TEST_F(PartyState, TheCheckpointJustWrittenStays) {
  for (const std::uint64_t step : {100, 200, 300, 150})
    write_checkpoint(step);
  files_.keep_only(150, 100);
  EXPECT_THAT(files_.checkpoints(), ElementsAre(100, 150));
  files_.keep_only(200, 150);
  EXPECT_THAT(files_.checkpoints(), ElementsAre(150));
}

TEST_F(PartyState, AnotherAlignmentTakesCheckpointsTheNetAndTheEndWithIt) {
  write_checkpoint(20);
  spill(files_.model(), "a net");
  const FinishedRun finished{.epochs = 3, .told = false, .alignment = "a"};
  files_.finish(finished);
  EXPECT_EQ(files_.finished(), finished);
  files_.keep({.name = "b", .table = table_of(5), .train_rows = 0, .rows = {}});
  EXPECT_TRUE(files_.checkpoints().empty());
  EXPECT_FALSE(std::filesystem::exists(files_.model()));
  EXPECT_FALSE(files_.finished());
}

TEST_F(PartyState, FoldersAreForTheirOwnerAlone) {
  for (const char* name : {"state", "state/run", "state/run/bank"}) {
    struct stat status {};
    ASSERT_EQ(::stat((folder_ / name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700) << name;
  }
}

TEST_F(PartyState, WhatAWriterThatWasKilledLeftGoesAtTheNextStart) {
  spill(files_.folder() / ".step-20.safetensors.4711.tmp", "half");
  spill(files_.folder() / "notes.tmp", "somebody's");
  const PartyFiles again(files_.folder());
  EXPECT_FALSE(std::filesystem::exists(files_.folder() / ".step-20.safetensors.4711.tmp"));
  EXPECT_TRUE(std::filesystem::exists(files_.folder() / "notes.tmp"));
}

TEST_F(PartyState, WhatTheFileSystemRefusesIsAnErrorWithThePath) {
  std::filesystem::remove_all(files_.folder());
  expect_error(ErrorKind::kNotFound, files_.folder().string(), [&] { files_.checkpoints(); });
  spill(folder_ / "file", "");
  expect_error(ErrorKind::kNotFound, (folder_ / "file").string(), [&] { PartyFiles(folder_ / "file/run/bank"); });
  // A folder in the place of a file, and not empty: it cannot be removed.
  const PartyFiles files(folder_ / "other");
  std::filesystem::create_directories(files.checkpoint(7) / "full");
  expect_error(ErrorKind::kIo, "step-7.safetensors", [&] { files.keep_only(1, 2); });
}

TEST_F(PartyState, ASeatHasOneProcessAndTheSameSecretAtEachStart) {
  std::string secret;
  {
    const PartySeat seat(folder_ / "seats", "bank");
    secret = seat.secret();
    EXPECT_EQ(secret.size(), 32);
    const Error error = error_of([&] { PartySeat(folder_ / "seats", "bank"); });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("another process is bank"), HasSubstr("bank.seat"), HasSubstr("--state")));
    EXPECT_NE(PartySeat(folder_ / "seats", "shop").secret(), secret);
  }
  EXPECT_EQ(PartySeat(folder_ / "seats", "bank").secret(), secret);
  spill(folder_ / "seats/bank.seat", "cut");
  EXPECT_NE(PartySeat(folder_ / "seats", "bank").secret(), secret);
}

}  // namespace
}  // namespace muster::federated
