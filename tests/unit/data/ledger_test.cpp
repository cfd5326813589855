// Honest ledgers are proved; every flipped byte, lost record and forged sample is found.
#include "muster/data/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/failpoint.h"
#include "muster/base/random.h"
#include "muster/data/lane_plan.h"
#include "muster/data/ledger_check.h"
#include "muster/data/ledger_format.h"
#include "muster/data/permutation.h"
#include "support/sandbox.h"

namespace muster::data {
namespace {

using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::status_of_child;
using muster::testing::TemporaryFolder;
using ::testing::HasSubstr;

constexpr BatchShape kShape{.samples = 23, .batch = 8, .lanes = 2};  // 3 steps an epoch, the last one short

std::vector<std::uint64_t> ids_of(const StepPlan& plan, std::size_t lane) {
  const Permutation permutation(kShape.samples, 1, plan.at.epoch);
  std::vector<std::uint64_t> ids;
  for (std::uint64_t at = plan.lanes[lane].begin; at < plan.lanes[lane].end; ++at)
    ids.push_back(permutation(at));
  return ids;
}

// The workers of a run: each lane is recorded by one that chance chooses, each commit by all.
class Workers {
 public:
  Workers(const std::filesystem::path& folder, int workers, std::uint64_t generation, std::uint64_t seed = 1)
      : chance_({.seed = seed}) {
    for (int worker = 0; worker < workers; ++worker)
      writers_.push_back(std::make_unique<LedgerWriter>(
          folder, LedgerOptions{.worker = worker, .epoch_samples = kShape.samples, .generation = generation}));
  }

  LedgerWriter& operator[](std::size_t worker) { return *writers_[worker]; }
  void resume(std::uint64_t step) {
    for (const auto& writer : writers_)
      writer->record_resume(step);
  }
  void lane(std::uint64_t step, std::size_t lane) {
    const StepPlan plan = plan_step(cursor_at_step(step, kShape), kShape);
    writers_[chance_.below(writers_.size())]->record_lane(plan.at.epoch, step, lane, ids_of(plan, lane));
  }
  void step(std::uint64_t step, bool commit = true) {
    const StepPlan plan = plan_step(cursor_at_step(step, kShape), kShape);
    for (std::size_t i = 0; i < plan.lanes.size(); ++i)
      lane(step, i);
    for (const auto& writer : writers_)
      if (commit) writer->record_commit(plan.at.epoch, step, plan.lanes.size());
  }
  void steps(std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t step = begin; step < end; ++step)
      this->step(step);
  }

 private:
  std::vector<std::unique_ptr<LedgerWriter>> writers_;
  RandomStream chance_;
};

// A whole run of two epochs and a step, by two workers.
void write_run(const std::filesystem::path& folder) {
  Workers workers(folder, 2, 1);
  workers.steps(0, 7);
}

// Changes one byte where it lies.
void poke(const std::filesystem::path& path, std::size_t at, char byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

// The pieces of a file: its header, then its records.
std::vector<std::string> pieces_of(const std::filesystem::path& path) {
  const std::string bytes = slurp(path);
  std::vector<std::string> pieces{bytes.substr(0, kLedgerFileHeader)};
  for (const LedgerRecord& record : read_ledger_file(path).records)
    pieces.push_back(
        bytes.substr(record.offset - kLedgerRecordHeader, kLedgerRecordHeader + record.ids * record.id_bytes));
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces)
    text += piece;
  return text;
}

// Writes a file anew with right checksums, after `change` has had its way: what somebody does who knows the format.
struct Item {
  LedgerRecord record;
  std::vector<std::uint64_t> ids;
};
void forge(const std::filesystem::path& path, const std::function<void(std::vector<Item>&)>& change) {
  std::vector<Item> items;
  {
    const LedgerFile file = read_ledger_file(path);
    for (const LedgerRecord& record : file.records)
      items.push_back({record, read_ledger_ids(file, record)});
  }
  change(items);
  const std::string header = slurp(path).substr(0, kLedgerFileHeader);
  std::string bytes = header;
  std::uint32_t chain = ledger_checksum(0, std::as_bytes(std::span(header)).first(32));
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].record.number = i;
    const auto encoded = encode_ledger_record(items[i].record, items[i].ids, chain);
    bytes.append(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  }
  spill(path, bytes);
}

TEST(Ledger, ProvesAnHonestRun) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const TemporaryFolder folder;
    {
      Workers workers(folder.path(), 3, 1, seed);
      workers.steps(0, 7);
    }
    const LedgerReport report = check_ledger(folder.path(), 7);
    EXPECT_EQ(report.violation, std::nullopt);
    EXPECT_EQ(report.files, 3u);
    EXPECT_EQ(report.steps, 7u);
    EXPECT_EQ(report.whole_epochs, 2u);
    EXPECT_EQ(report.samples_so_far, 8u);
    EXPECT_EQ(report.lanes, 14u);
    EXPECT_EQ(report.unclosed_files, 0u);
  }
}

TEST(Ledger, SaysWhenThereIsNone) {
  const TemporaryFolder folder;
  EXPECT_THROW(check_ledger(folder.path()), Error);
  EXPECT_THROW(check_ledger(folder / "absent"), Error);
  EXPECT_EQ(next_ledger_generation(folder / "absent"), 1u);
}

TEST(Ledger, LargeIdsNeedNoMoreThanTheirBytes) {
  const TemporaryFolder folder;
  const std::uint64_t large = std::uint64_t{1} << 40;
  LedgerWriter writer(folder.path(), {.epoch_samples = large + 1});
  writer.record_lane(0, 0, 0, std::vector<std::uint64_t>{1, 2});
  writer.record_lane(0, 0, 1, std::vector<std::uint64_t>{3, large});
  const LedgerFile file = read_ledger_file(writer.path());
  EXPECT_EQ(read_ledger_ids(file, file.records[0]), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(read_ledger_ids(file, file.records[1]), (std::vector<std::uint64_t>{3, large}));
  EXPECT_EQ(file.file.size, kLedgerFileHeader + 2 * kLedgerRecordHeader + 2 * 4 + 2 * 8);
}

TEST(LedgerDamage, EveryFlippedByteIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  for (const std::filesystem::path& path : ledger_files(folder.path())) {
    const std::string whole = slurp(path);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      poke(path, at, static_cast<char>(whole[at] ^ (1 << at % 8)));
      ASSERT_TRUE(check_ledger(folder.path()).violation) << path << " byte " << at;
      poke(path, at, whole[at]);
    }
  }
  EXPECT_FALSE(check_ledger(folder.path()).violation);
}

TEST(LedgerDamage, EveryDroppedDoubledAndSwappedRecordIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  for (const std::filesystem::path& path : ledger_files(folder.path())) {
    const std::vector<std::string> pieces = pieces_of(path);
    const std::string name = path.filename().string();
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      std::vector<std::string> dropped = pieces;
      dropped.erase(dropped.begin() + static_cast<std::ptrdiff_t>(i));
      spill(path, joined(dropped));
      const LedgerReport without = check_ledger(folder.path());
      // The last record only says that the file is whole, and its absence says that this is not known.
      if (i + 1 < pieces.size())
        EXPECT_THAT(*without.violation, HasSubstr(name + ": record " + std::to_string(i - 1)));
      else
        EXPECT_EQ(without.unclosed_files, 1u);
      std::vector<std::string> doubled = pieces;
      doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(i), pieces[i]);
      spill(path, joined(doubled));
      EXPECT_TRUE(check_ledger(folder.path()).violation) << name << " doubled " << i;
      if (i + 1 == pieces.size()) continue;
      std::vector<std::string> swapped = pieces;
      std::swap(swapped[i], swapped[i + 1]);
      spill(path, joined(swapped));
      EXPECT_TRUE(check_ledger(folder.path()).violation) << name << " swapped " << i;
    }
    spill(path, joined(pieces));
  }
}

TEST(LedgerDamage, RecordOfAnotherFileIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  const auto files = ledger_files(folder.path());
  std::vector<std::string> first = pieces_of(files[0]);
  std::vector<std::string> second = pieces_of(files[1]);
  std::swap(first[1], second[1]);
  spill(files[0], joined(first));
  EXPECT_THAT(*check_ledger(folder.path()).violation, HasSubstr("record 0"));
}

// A file that was cut is like one of a killed worker; what is lost shows, or was of no importance.
TEST(LedgerDamage, CutAtAnyByteEveryLostLaneIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  for (const std::filesystem::path& path : ledger_files(folder.path())) {
    const std::string whole = slurp(path);
    for (std::size_t length = whole.size(); length-- > 0;) {
      std::filesystem::resize_file(path, length);
      const LedgerReport report = check_ledger(folder.path(), 7);
      if (!report.violation) {
        ASSERT_EQ(report.lanes, 14u) << path << " cut to " << length;
        ASSERT_EQ(report.unclosed_files, 1u) << path << " cut to " << length;
      }
    }
    spill(path, whole);
  }
}

TEST(LedgerDamage, MissingFileIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  for (const std::filesystem::path& path : ledger_files(folder.path())) {
    const std::string whole = slurp(path);
    std::filesystem::remove(path);
    EXPECT_THAT(*check_ledger(folder.path()).violation, HasSubstr("nobody has recorded it"));
    spill(path, whole);
  }
}

TEST(LedgerDamage, LedgerThatEndsBeforeTheCheckpointIsFound) {
  const TemporaryFolder folder;
  write_run(folder.path());
  EXPECT_FALSE(check_ledger(folder.path(), 7).violation);
  EXPECT_THAT(*check_ledger(folder.path(), 8).violation, HasSubstr("checkpoint of step 8"));
}

class LedgerForgery : public ::testing::Test {
 protected:
  // One worker, so that a forger has all records in one file.
  void SetUp() override {
    Workers workers(folder_.path(), 1, 1);
    workers.steps(0, 7);
  }
  // What the check says when `change` was done to record number `index` of all lanes.
  std::string verdict(std::size_t index,
                      const std::function<void(std::vector<Item>&, std::vector<Item>::iterator)>& change) {
    const std::filesystem::path path = ledger_files(folder_.path()).front();
    const std::string whole = slurp(path);
    forge(path, [&](std::vector<Item>& items) {
      auto at = items.begin();
      for (std::size_t lanes = 0;; ++at)
        if (at->record.kind == LedgerKind::kLane && lanes++ == index) break;
      change(items, at);
    });
    const std::string text = check_ledger(folder_.path(), 7).violation.value_or("nothing");
    spill(path, whole);
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(LedgerForgery, NothingChangedIsAccepted) {
  EXPECT_EQ(verdict(0, [](auto&, auto) {}), "nothing");
}

TEST_F(LedgerForgery, AnyOtherSampleIsFound) {
  for (std::size_t lane = 0; lane < 12; ++lane) {  // of whole epochs
    const std::string text =
        verdict(lane, [](auto&, auto at) { at->ids.back() = (at->ids.back() + 1) % kShape.samples; });
    EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("was used before"), HasSubstr("never used"))) << lane;
    EXPECT_THAT(text, HasSubstr("epoch " + std::to_string(lane / 6)));
  }
}

TEST_F(LedgerForgery, AnyLostSampleOrLaneIsFound) {
  for (std::size_t lane = 0; lane < 12; ++lane) {
    EXPECT_THAT(verdict(lane, [](auto&, auto at) { at->ids.pop_back(); }), HasSubstr("never used")) << lane;
    EXPECT_THAT(verdict(lane, [](auto& items, auto at) { items.erase(at); }), HasSubstr("recorded")) << lane;
  }
}

TEST_F(LedgerForgery, SampleThatIsNoneIsFound) {
  EXPECT_THAT(verdict(3, [](auto&, auto at) { at->ids[0] = kShape.samples; }),
              HasSubstr("sample 23 of a data set of 23"));
}

TEST_F(LedgerForgery, RepeatedLaneMustHaveTheSameSamples) {
  EXPECT_EQ(verdict(3, [](auto& items, auto at) { items.insert(at, *at); }), "nothing");
  EXPECT_THAT(verdict(3,
                      [](auto& items, auto at) {
                        Item other = *at;
                        std::swap(other.ids[0], other.ids[1]);
                        items.insert(at, other);
                      }),
              HasSubstr("has other samples than"));
}

TEST_F(LedgerForgery, StepsAndEpochsMustFollowEachOther) {
  EXPECT_THAT(verdict(0,
                      [](auto& items, auto) {
                        for (Item& item : items)
                          if (item.record.step == 6) item.record.epoch = 3;
                      }),
              HasSubstr("epoch 3, after one of epoch 1"));
  EXPECT_THAT(verdict(0, [](auto& items,
                            auto) { std::erase_if(items, [](const Item& item) { return item.record.step == 2; }); }),
              HasSubstr("step 2 was committed"));
}

// Two epochs of one lane a step, of which samples 3 and 7 are bad.
void write_with_skips(const std::filesystem::path& folder) {
  LedgerWriter writer(folder, {.epoch_samples = 8});
  for (std::uint64_t step = 0; step < 4; ++step) {
    const std::uint64_t first = step % 2 * 4;
    const std::vector<std::uint64_t> ids{first, first + 1, first + 2, first + 3};
    writer.record_lane(step / 2, step, 0, ids, std::vector<std::uint64_t>{first + 3});
    writer.record_commit(step / 2, step, 1);
  }
}

TEST(LedgerSkips, AreNamedAndCountAsUsed) {
  const TemporaryFolder folder;
  write_with_skips(folder.path());
  const LedgerReport report = check_ledger(folder.path(), 4);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.whole_epochs, 2U);
  EXPECT_EQ(report.skipped, 4U);
  EXPECT_EQ(report.skipped_ids, (std::vector<std::uint64_t>{3, 7}));
}

TEST(LedgerSkips, MustBeOfTheLaneThatFollows) {
  const auto verdict = [](const std::function<void(std::vector<Item>&)>& change) {
    const TemporaryFolder folder;
    write_with_skips(folder.path());
    forge(ledger_files(folder.path()).front(), change);
    return check_ledger(folder.path(), 4).violation.value_or("nothing");
  };
  // Records are skips, lane, commit, skips, ...
  EXPECT_EQ(verdict([](auto&) {}), "nothing");
  EXPECT_THAT(verdict([](auto& items) { items[0].ids = {4}; }), HasSubstr("sample 4 was skipped and is not one of"));
  EXPECT_THAT(verdict([](auto& items) { items[0].ids = {3, 3}; }), HasSubstr("sample 3 was skipped twice"));
  EXPECT_THAT(verdict([](auto& items) { std::swap(items[0], items[3]); }), HasSubstr("is not of that lane"));
  EXPECT_THAT(verdict([](auto& items) { items.erase(items.begin() + 1); }), HasSubstr("is not of that lane"));
  // A lane that was computed again must have met the same bad samples.
  EXPECT_THAT(verdict([](auto& items) { items.insert(items.begin() + 2, items[1]); }),
              HasSubstr("has other samples skipped"));
}

TEST(LedgerSkips, AWorkerThatDiedBeforeItsLaneLeavesAGoodFile) {
  const TemporaryFolder folder;
  write_with_skips(folder.path());
  forge(ledger_files(folder.path()).front(), [](auto& items) {
    items.back() = items[0];  // instead of the record that closes the file
    items.back().record.step = 4;
    items.back().record.epoch = 2;
  });
  const LedgerReport report = check_ledger(folder.path(), 4);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.skipped, 4U);
}

TEST(LedgerRecovery, LaneOfADeadWorkerMayBeRecordedTwice) {
  const TemporaryFolder folder;
  Workers workers(folder.path(), 2, 1);
  workers.steps(0, 2);
  workers.lane(2, 0);  // recorded, then the worker died
  workers[0].set_generation(2);
  workers[1].set_generation(2);
  workers.steps(2, 6);
  const LedgerReport report = check_ledger(folder.path());
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.repeated_lanes, 1u);
  EXPECT_EQ(report.whole_epochs, 2u);
}

TEST(LedgerRecovery, CommitNobodyCouldRecordIsKnownFromTheNextStep) {
  const TemporaryFolder folder;
  Workers workers(folder.path(), 2, 1);
  for (std::uint64_t step = 0; step < 4; ++step)
    workers.step(step, false);
  const LedgerReport report = check_ledger(folder.path());
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.steps, 3u);  // of the fourth nobody knows
  EXPECT_EQ(report.whole_epochs, 1u);
}

TEST(LedgerRecovery, ResumptionMakesLaterStepsVoid) {
  const TemporaryFolder folder;
  {
    Workers first(folder.path(), 3, next_ledger_generation(folder.path()));
    first.steps(0, 5);
  }
  {
    Workers second(folder.path(), 2, next_ledger_generation(folder.path()));
    second.resume(2);
    second.steps(2, 4);
  }
  Workers third(folder.path(), 1, next_ledger_generation(folder.path()));
  third.resume(3);
  third.steps(3, 6);
  const LedgerReport report = check_ledger(folder.path(), 6);
  EXPECT_EQ(report.violation, std::nullopt);
  EXPECT_EQ(report.steps, 6u);
  EXPECT_EQ(report.whole_epochs, 2u);
  EXPECT_EQ(report.resumptions, 2u);
  EXPECT_EQ(report.repeated_lanes, 0u);
  // Steps 2, 3, 4 of the first (2 lanes and 3 commits each), step 3 of the second (2 lanes and 2 commits).
  EXPECT_EQ(report.void_records, 3u * 5 + 4);
}

TEST(LedgerRecovery, StepsThatWereGoneBackOnDoNotCount) {
  const TemporaryFolder folder;
  {
    Workers first(folder.path(), 1, 1);
    first.steps(0, 5);
  }
  LedgerWriter second(folder.path(), {.epoch_samples = kShape.samples, .generation = 2});
  second.record_resume(2);
  EXPECT_EQ(check_ledger(folder.path()).steps, 2u);
  EXPECT_TRUE(check_ledger(folder.path(), 5).violation);  // a checkpoint of a step that was not done again
}

TEST(LedgerRecovery, KilledWorkerLeavesAGoodFile) {
  for (const char* point : {"ledger.append.before_write", "ledger.append.after_write"}) {
    const TemporaryFolder folder;
    const int status = status_of_child([&] {
      arm_failpoints(std::string(point) + "=kill@call=5");
      Workers workers(folder.path(), 1, 1);
      workers.steps(0, 7);
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status));
    // Steps 0 and 1 took three records each: the sixth is the commit of step 1, which the survivors go on from.
    Workers survivors(folder.path(), 1, 2);
    survivors.steps(2, 7);
    const LedgerReport report = check_ledger(folder.path(), 7);
    EXPECT_EQ(report.violation, std::nullopt);
    EXPECT_EQ(report.unclosed_files, 2u);  // the second is still being written
  }
}

TEST(LedgerRecovery, FullDiskLeavesWholeRecords) {
  const TemporaryFolder folder;
  const int status = status_of_child([&] {
    muster::testing::limit_file_size(500);
    LedgerWriter writer(folder.path(), {.epoch_samples = 1000});
    for (std::uint64_t step = 0;; ++step) {
      try {
        writer.record_lane(0, step, 0, std::vector<std::uint64_t>{step});
      } catch (const Error& error) {
        return error.kind() == ErrorKind::kResource && step == 7 ? 0 : 1;
      }
    }
  });
  EXPECT_EQ(status, 0);
  const LedgerFile file = read_ledger_file(ledger_files(folder.path()).front());
  EXPECT_EQ(file.damage, std::nullopt);
  EXPECT_FALSE(file.torn);
  EXPECT_EQ(file.records.size(), 7u);
}

TEST(LedgerRecovery, GenerationsGoOnAfterTheHighest) {
  const TemporaryFolder folder;
  {
    Workers workers(folder.path(), 2, 5);
    workers[1].set_generation(9);
    workers.steps(0, 3);
  }
  EXPECT_EQ(next_ledger_generation(folder.path()), 10u);
  // A run goes on over a damaged file; what the other files say still counts.
  poke(folder / "worker-000-0000.ledger", kLedgerFileHeader + 3, '!');
  EXPECT_EQ(next_ledger_generation(folder.path()), 10u);
  EXPECT_TRUE(check_ledger(folder.path()).violation);
}

}  // namespace
}  // namespace muster::data
