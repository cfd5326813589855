// Saving, choosing, pruning and falling back, on a real disk; crashes and full disks are in checkpoint_faults_test.
#include "muster/model/checkpoint.h"

#include <algorithm>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_example.h"
#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "support/sandbox.h"

namespace muster::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  CheckpointStore store(std::size_t keep = 0) { return CheckpointStore(folder_, {.keep = keep, .at = {}}); }
  // Saves examples of these steps.
  void save(std::initializer_list<std::uint64_t> steps, std::size_t keep = 0) {
    CheckpointStore saver = store(keep);
    for (const std::uint64_t step : steps)
      saver.save(ExampleCheckpoint(step).content());
  }
  std::filesystem::path file(std::uint64_t step, const std::string& name) { return store().path_of(step) / name; }
  ErrorKind kind_of_load(std::uint64_t step) {
    try {
      store().load(step);
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "loaded";
    return ErrorKind::kInterrupted;
  }

  testing::TemporaryFolder scratch_;
  std::filesystem::path folder_ = scratch_.path() / "run" / "checkpoints";
};

TEST_F(CheckpointStoreTest, OfAMissingFolderIsEmptyAndWritesNothing) {
  CheckpointStore empty = store();
  std::vector<RejectedCheckpoint> rejected;
  EXPECT_FALSE(empty.load_newest(rejected));
  EXPECT_THAT(rejected, IsEmpty());
  EXPECT_THAT(empty.list(), IsEmpty());
  EXPECT_FALSE(empty.best());
  EXPECT_EQ(kind_of_load(1), ErrorKind::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(CheckpointStoreTest, GivesBackWhatWasSaved) {
  save({1234});
  EXPECT_THAT(names_of(folder_), ElementsAre("step-000000001234"));
  EXPECT_THAT(names_of(folder_ / "step-000000001234"),
              ElementsAre("manifest.json", "model.safetensors", "optimizer.safetensors"));
  const LoadedCheckpoint loaded = store().load(1234);
  EXPECT_TRUE(ExampleCheckpoint(1234).equals(loaded));
  EXPECT_FALSE(ExampleCheckpoint(1234, 1).equals(loaded)) << "the comparison sees nothing";
  EXPECT_EQ(loaded.path, folder_ / "step-000000001234");
  EXPECT_EQ(loaded.model.header().metadata.at("format"), "pt");
}

TEST_F(CheckpointStoreTest, SavesAModelWithoutOptimizerStateAndStepZero) {
  ExampleCheckpoint example(0);
  CheckpointContent content = example.content();
  content.optimizer.clear();
  store().save(content);
  EXPECT_THAT(store().load(0).optimizer.header().tensors, IsEmpty());
}

TEST_F(CheckpointStoreTest, NewestIsByStepNotByTime) {
  save({20, 3, 100});
  std::vector<RejectedCheckpoint> rejected;
  EXPECT_EQ(store().load_newest(rejected)->manifest.step, 100u);
  EXPECT_THAT(store().list(), ElementsAre(3, 20, 100));
  const std::uint64_t beyond_twelve_digits = 12'345'678'901'234;
  save({beyond_twelve_digits});
  EXPECT_EQ(store().load_newest(rejected)->manifest.step, beyond_twelve_digits);
}

TEST_F(CheckpointStoreTest, IgnoresWhatIsNotItsOwn) {
  save({5});
  for (const char* const name : {"step-7", "step-0000000000x7", "Step-000000000007", "step-000000000007.bak"}) {
    std::filesystem::create_directories(folder_ / name);
  }
  put_file(folder_ / "step-000000000009", "a file");
  EXPECT_THAT(store().list(), ElementsAre(5));
}

TEST_F(CheckpointStoreTest, ReplacesOneOfTheSameStep) {
  save({1, 2});
  const ExampleCheckpoint other(2, 1);
  store().save(other.content());
  EXPECT_TRUE(other.equals(store().load(2)));
  EXPECT_THAT(names_of(folder_), ElementsAre("step-000000000001", "step-000000000002"));
}

TEST_F(CheckpointStoreTest, KeepsTheNewestAndTheBest) {
  CheckpointStore saver = store(2);
  saver.save(ExampleCheckpoint(1).content());
  saver.mark_best(1, 0.9);
  for (const std::uint64_t step : {2, 3, 4})
    saver.save(ExampleCheckpoint(step).content());
  EXPECT_THAT(saver.list(), ElementsAre(1, 3, 4));
  saver.mark_best(4, 0.95);
  saver.save(ExampleCheckpoint(5).content());
  EXPECT_THAT(saver.list(), ElementsAre(4, 5));
  EXPECT_EQ(saver.best()->step, 4u);
}

TEST_F(CheckpointStoreTest, PruneKeepsProtectedStepsAndZeroKeepsAll) {
  save({1, 2, 3, 4, 5});
  CheckpointStore pruner = store();
  pruner.prune(0);
  EXPECT_EQ(pruner.list().size(), 5u);
  const std::uint64_t protected_steps[] = {2, 77};
  pruner.prune(1, protected_steps);
  EXPECT_THAT(pruner.list(), ElementsAre(2, 5));
  pruner.prune(10);
  EXPECT_THAT(pruner.list(), ElementsAre(2, 5));
  EXPECT_THAT(names_of(folder_), ElementsAre("step-000000000002", "step-000000000005"));
}

TEST_F(CheckpointStoreTest, ThoseOfLaterStepsAreRemoved) {
  CheckpointStore left = store();
  for (const std::uint64_t step : {1, 2, 5})
    left.save(ExampleCheckpoint(step).content());
  left.remove_after(5);
  EXPECT_THAT(left.list(), ElementsAre(1, 2, 5));
  left.remove_after(1);
  EXPECT_THAT(left.list(), ElementsAre(1));
  EXPECT_TRUE(ExampleCheckpoint(1).equals(left.load(1)));
}

TEST_F(CheckpointStoreTest, ARejectedCheckpointIsNotOneOfThoseKept) {
  save({1, 2, 3});
  put_file(file(2, "manifest.json"), "{}");
  put_file(file(3, "manifest.json"), "{}");
  CheckpointStore pruner = store();
  std::vector<RejectedCheckpoint> rejected;
  EXPECT_EQ(pruner.load_newest(rejected)->manifest.step, 1u);
  pruner.prune(1);
  EXPECT_TRUE(ExampleCheckpoint(1).equals(pruner.load(1)));
  // Saved anew it counts again, and what is older goes, damaged or not.
  pruner.save(ExampleCheckpoint(3).content());
  pruner.prune(1);
  EXPECT_THAT(pruner.list(), ElementsAre(3));
  EXPECT_TRUE(ExampleCheckpoint(3).equals(pruner.load(3)));
}

TEST_F(CheckpointStoreTest, FallsBackPastDamagedOnesWithEachReason) {
  save({1, 2, 3, 4});
  put_file(file(4, "model.safetensors"), "cut");
  std::filesystem::remove(file(3, "optimizer.safetensors"));
  std::filesystem::remove(file(2, "manifest.json"));
  std::vector<RejectedCheckpoint> rejected;
  const auto loaded = store().load_newest(rejected);
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(ExampleCheckpoint(1).equals(*loaded));
  ASSERT_EQ(rejected.size(), 3u);
  EXPECT_EQ(rejected[0].path, folder_ / "step-000000000004");
  EXPECT_THAT(rejected[0].reason, HasSubstr("model.safetensors: has 3 bytes; the manifest says"));
  EXPECT_THAT(rejected[1].reason, HasSubstr("optimizer.safetensors: cannot be opened"));
  EXPECT_THAT(rejected[2].reason, HasSubstr("no manifest"));

  put_file(file(1, "manifest.json"), "");
  rejected.clear();
  EXPECT_FALSE(store().load_newest(rejected));
  EXPECT_EQ(rejected.size(), 4u);
}

TEST_F(CheckpointStoreTest, RefusesOneStepUnderTheNameOfAnother) {
  save({1});
  std::filesystem::copy(folder_ / "step-000000000001", folder_ / "step-000000000002");
  EXPECT_EQ(kind_of_load(2), ErrorKind::kDamaged);
  EXPECT_TRUE(ExampleCheckpoint(1).equals(store().load(1)));
}

// Whoever writes a manifest can write hashes that fit: the header has to be right as well.
TEST_F(CheckpointStoreTest, RefusesAnOverlapThatHasTheRightHash) {
  save({1});
  std::string text = file_text(file(1, "model.safetensors"));
  const std::string offsets = R"("data_offsets":[8,128])";
  const std::size_t place = text.find(offsets);
  ASSERT_NE(place, std::string::npos) << text.substr(8, 256);
  text.replace(place, offsets.size(), R"("data_offsets":[0,120])");
  put_file(file(1, "model.safetensors"), text);
  Manifest manifest = parse_manifest(file_text(file(1, "manifest.json")), "x");
  manifest.files[0].sha256 = sha256(std::as_bytes(std::span(text)));
  put_file(file(1, "manifest.json"), encode_manifest(manifest));
  try {
    store().load(1);
    ADD_FAILURE() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDamaged);
    EXPECT_THAT(error.what(), HasSubstr("an overlap"));
  }
}

TEST_F(CheckpointStoreTest, RefusesTensorsThatCannotBeSavedAndLeavesNothing) {
  save({1});
  CheckpointContent content = ExampleCheckpoint(2).content();
  content.model = {{"a", Dtype::kF32, {5}, {}}};
  EXPECT_THROW(store().save(content), Error);
  EXPECT_THAT(names_of(folder_), ElementsAre("step-000000000001"));
}

TEST_F(CheckpointStoreTest, BestIsRememberedAndReplaced) {
  save({1, 2});
  store().mark_best(1, 0.1 + 0.2);
  EXPECT_EQ(store().best()->step, 1u);
  EXPECT_EQ(store().best()->metric, 0.1 + 0.2);
  store().mark_best(2, -3);
  EXPECT_EQ(store().best()->step, 2u);
  EXPECT_EQ(store().best()->metric, -3);
  std::filesystem::remove_all(folder_ / "step-000000000002");
  EXPECT_FALSE(store().best());
}

TEST_F(CheckpointStoreTest, BestRefusesMissingStepsOddMetricsAndDamage) {
  save({1});
  EXPECT_THROW(store().mark_best(2, 0.5), Error);
  EXPECT_THROW(store().mark_best(1, std::numeric_limits<double>::quiet_NaN()), Error);
  EXPECT_THROW(store().mark_best(1, std::numeric_limits<double>::infinity()), Error);
  EXPECT_FALSE(store().best());
  store().mark_best(1, 0.5);
  std::string text = file_text(folder_ / "best.json");
  text.replace(text.find("0.5"), 3, "0.6");
  put_file(folder_ / "best.json", text);
  EXPECT_THROW(store().best(), Error);
  // With no way to tell which is the best, saving goes on and removes nothing.
  CheckpointStore saver = store(1);
  saver.save(ExampleCheckpoint(2).content());
  EXPECT_THAT(saver.list(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace muster::model
