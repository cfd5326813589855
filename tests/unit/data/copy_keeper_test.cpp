// Hosts that keep parts of each other's data, in one process: one has all of it, the others keep what the plan gives
// them; then those who may be lost are lost.
#include "muster/data/copy_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "muster/base/error.h"
#include "muster/data/depot_shards.h"
#include "muster/data/fetched_dataset.h"
#include "muster/data/pack.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/shard_files.h"
#include "muster/data/synthetic.h"
#include "support.h"
#include "support/eventually.h"

namespace muster::data {
namespace {

using namespace std::chrono_literals;

// Whatever is behind it, until it is lost.
class Line final : public ShardCalls {
 public:
  explicit Line(ShardCalls& calls) : calls_(calls) {}
  ShardCatalog catalog(const Deadline& deadline) override {
    if (lost) throw Error(ErrorKind::kPeerLost, "nobody answers");
    return calls_.catalog(deadline);
  }
  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline& deadline) override {
    if (lost) throw Error(ErrorKind::kPeerLost, "nobody answers");
    ++reads;
    return calls_.read(print, shard, offset, bytes, deadline);
  }
  std::atomic<bool> lost = false;
  std::atomic<int> reads = 0;

 private:
  ShardCalls& calls_;
};

class CopyKeeperTest : public ::testing::Test {
 protected:
  CopyKeeperTest() {
    const SyntheticOptions options{.shape = {1, 8, 8}, .classes = 5, .samples = 600, .seed = 1};
    pack(std::make_shared<Synthetic>(options), {}, folder_ / "here", "train", {.shards = 3});
    files_ = std::make_unique<ShardFiles>(folder_ / "here");
    lines_[1] = std::make_shared<Line>(*files_);
    add_host(1, true);
  }
  ~CopyKeeperTest() override {
    for (auto& [number, host] : hosts_)
      host->keeper.reset();
  }

  struct Host {
    std::unique_ptr<Depot> depot;
    std::unique_ptr<DepotShards> shards;
    std::unique_ptr<CopyKeeper> keeper;
  };

  static std::string name_of(std::uint64_t number) { return "host " + std::to_string(number); }
  void add_host(std::uint64_t number, bool whole) {
    const MutexLock lock(mutex_);
    view_.push_back({{"h" + std::to_string(number), number}, name_of(number), whole, ""});
  }
  // A host with a disk and no data, that keeps a part.
  Host& start(std::uint64_t number, std::uint32_t copies = 2, std::uint64_t cache_bytes = 16 << 10) {
    Host& host = *(hosts_[number] = std::make_unique<Host>());
    DepotOptions options;
    options.cache = folder_ / name_of(number);
    options.cache_bytes = cache_bytes;
    options.keeps_a_part = true;
    options.kept_as = "the data";
    options.sources = [this, number] {
      std::vector<ShardSource> sources;
      const MutexLock lock(mutex_);
      for (const CopyHost& other : view_)
        if (other.member.number != number) sources.push_back({other.source, lines_.at(other.member.number)});
      return sources;
    };
    host.depot = std::make_unique<Depot>(std::move(options));
    host.shards = std::make_unique<DepotShards>(*host.depot);
    {
      const MutexLock lock(mutex_);
      lines_[number] = std::make_shared<Line>(*host.shards);
    }
    add_host(number, false);
    CopyKeeperOptions keeper;
    keeper.copies = copies;
    keeper.look = [this, number] {
      const MutexLock lock(mutex_);
      return CopyView{view_, number};
    };
    keeper.held = [this, number](const std::string& plan) {
      const MutexLock lock(mutex_);
      for (CopyHost& host : view_)
        if (host.member.number == number) host.held = plan;
    };
    keeper.tell = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      told_ += line + "\n";
    };
    host.keeper = std::make_unique<CopyKeeper>(*host.depot, std::move(keeper));
    return host;
  }
  void lose(std::uint64_t number) {
    std::unique_ptr<Host> gone;
    {
      const MutexLock lock(mutex_);
      lines_.at(number)->lost = true;
      std::erase_if(view_, [&](const CopyHost& host) { return host.member.number == number; });
      if (const auto found = hosts_.find(number); found != hosts_.end()) gone = std::move(found->second);
      hosts_.erase(number);
    }
    if (gone) {
      gone->keeper.reset();
      kept_alive_.push_back(std::move(gone));  // lines may still point to it
    }
  }
  // The plan of which all hosts have their part; empty: there is none.
  std::string plan() {
    const MutexLock lock(mutex_);
    std::set<std::string> plans;
    for (const CopyHost& host : view_)
      if (!host.whole) plans.insert(host.held);
    return plans.size() == 1 ? *plans.begin() : "";
  }
  bool settled() { return !plan().empty(); }
  std::string told() {
    const MutexLock lock(mutex_);
    return told_;
  }
  void expect_all_samples(Depot& depot) {
    const PackedDataset there(folder_ / "here", "train");
    const std::shared_ptr<PieceDoor> door(std::shared_ptr<PieceDoor>(), &depot);
    const FetchedDataset fetched(door, depot.open(Deadline::after(60s)), "train");
    ASSERT_EQ(fetched.size(), there.size());
    std::vector<float> left(64);
    std::vector<float> right(64);
    for (std::uint64_t id = 0; id < there.size(); ++id) {
      ASSERT_EQ(fetched.read(id, left), there.read(id, right)) << id;
      ASSERT_EQ(std::memcmp(left.data(), right.data(), 64 * sizeof(float)), 0) << id;
    }
  }

  TemporaryFolder folder_;
  std::unique_ptr<ShardFiles> files_;
  Mutex mutex_;
  std::vector<CopyHost> view_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::shared_ptr<Line>> lines_;
  std::string told_ MUSTER_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Host>> kept_alive_;
};

TEST_F(CopyKeeperTest, WhenAllHaveTheirPartTheOneThatHadEverythingMayBeLost) {
  for (const std::uint64_t number : {2, 3, 4})
    start(number);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  // Of four hosts with two copies each keeps about half.
  const std::uint64_t all = PackedDataset(folder_ / "here", "train").bytes();
  EXPECT_LT(hosts_.at(3)->depot->kept_bytes(), all * 3);
  EXPECT_GT(hosts_.at(3)->depot->kept_bytes(), 0U);
  const std::string of_four = plan();
  lose(1);
  expect_all_samples(*hosts_.at(3)->depot);
  // The others have made up for it: one more may be lost.
  ASSERT_TRUE(testing::eventually([&] { return settled() && plan() != of_four; })) << told();
  lose(2);
  expect_all_samples(*hosts_.at(4)->depot);
}

TEST_F(CopyKeeperTest, WithOneCopyALossLosesData) {
  for (const std::uint64_t number : {2, 3})
    start(number, 1);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  lose(1);
  // What only the lost one was to keep is nowhere: the plan was of three.
  EXPECT_THROW(
      {
        for (std::uint64_t portion = 0; portion < hosts_.at(2)->depot->portions().count(); ++portion) {
          const PieceRun run = hosts_.at(2)->depot->portions().pieces(portion);
          hosts_.at(2)->depot->fetch({run.shard, run.first}, Deadline::after(1s));
        }
      },
      Error);
}

TEST_F(CopyKeeperTest, HostsThatHaveKeptPartsNeedNobodyElseTheNextTime) {
  for (const std::uint64_t number : {2, 3})
    start(number);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  for (const std::uint64_t number : {1, 2, 3})
    lose(number);
  kept_alive_.clear();
  for (const std::uint64_t number : {2, 3})
    start(number);
  expect_all_samples(*hosts_.at(2)->depot);
  expect_all_samples(*hosts_.at(3)->depot);
}

TEST_F(CopyKeeperTest, APieceThatTheDiskHasSpoiledIsFetchedAgainWhenTheHostComesBack) {
  start(2);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  lose(2);
  kept_alive_.clear();
  int spoiled = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / name_of(2))) {
    if (!entry.is_regular_file() || entry.path().parent_path().filename().string().size() > 1) continue;
    testing::spill(entry.path(), "spoiled");
    ++spoiled;
  }
  ASSERT_GT(spoiled, 0);
  start(2);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  lose(1);
  expect_all_samples(*hosts_.at(2)->depot);
}

TEST_F(CopyKeeperTest, WhatAPlanBeforeHasGivenItStaysUntilAllHaveTheirPart) {
  Host& second = start(2, 1);
  ASSERT_TRUE(testing::eventually([&] { return settled(); })) << told();
  const std::uint64_t before = second.depot->kept_bytes();
  // A third that is told of and never gets its part: nothing may go.
  {
    const MutexLock lock(mutex_);
    lines_[3] = std::make_shared<Line>(*files_);
    lines_[3]->lost = true;
  }
  add_host(3, false);
  ASSERT_TRUE(testing::eventually([&] { return told().find("on 3 hosts") != std::string::npos; })) << told();
  EXPECT_GE(second.depot->kept_bytes(), before);
}

}  // namespace
}  // namespace muster::data
