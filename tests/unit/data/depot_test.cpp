// Hosts that have data, and one that has not: played, with every failure a host can have.
#include "muster/data/depot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>

#include "muster/base/error.h"
#include "muster/data/fetched_dataset.h"
#include "muster/data/pack.h"
#include "muster/data/packed_dataset.h"
#include "muster/data/shard_files.h"
#include "muster/data/sources.h"
#include "muster/data/synthetic.h"
#include "support.h"
#include "support/eventually.h"

namespace muster::data {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A host with files, whose calls fail as a test says.
class PlayedHost final : public ShardCalls {
 public:
  explicit PlayedHost(const std::filesystem::path& folder) : files_(folder) {}

  ShardCatalog catalog(const Deadline& deadline) override {
    fail_if_told();
    return files_.catalog(deadline);
  }
  std::vector<std::byte> read(const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes,
                              const Deadline& deadline) override {
    fail_if_told();
    ++reads;
    std::vector<std::byte> data = files_.read(print, shard, offset, bytes, deadline);
    if (spoil) spoil(data);
    return data;
  }

  std::atomic<bool> lost = false;
  std::atomic<int> failures = 0;  // that are still to come
  std::atomic<int> reads = 0;
  std::function<void(std::vector<std::byte>&)> spoil;  // set before it is called

 private:
  void fail_if_told() {
    if (lost || failures-- > 0) throw Error(ErrorKind::kPeerLost, "nobody answers");
  }

  ShardFiles files_;
};

class DepotTest : public ::testing::Test {
 protected:
  DepotTest() { pack_into("here"); }

  void pack_into(const std::string& name, std::uint64_t seed = 1) {
    SyntheticOptions options{.shape = {1, 8, 8}, .classes = 5, .samples = 500, .seed = seed};
    const PackOptions shards{.shards = 3};
    pack(std::make_shared<Synthetic>(options), {}, folder_ / name, "train", shards);
    options.samples = 60;
    pack(std::make_shared<Synthetic>(options), {}, folder_ / name, "test", shards);
  }
  std::shared_ptr<PlayedHost> host(const std::string& name, const std::string& folder = "here") {
    auto made = std::make_shared<PlayedHost>(folder_ / folder);
    sources_.push_back({name, made});
    return made;
  }
  void open(std::uint64_t cache_bytes = 64 << 20, int threads = 2) {
    depot_.reset();
    DepotOptions options;
    options.cache = folder_ / "cache";
    options.cache_bytes = cache_bytes;
    options.threads = threads;
    options.sources = [this] { return sources_; };
    options.tell = [this](const std::string& line) {
      const MutexLock lock(mutex_);
      told_ += line + "\n";
    };
    depot_ = std::make_shared<Depot>(std::move(options));
  }
  std::shared_ptr<FetchedDataset> dataset(const std::string& set = "train") {
    return std::make_shared<FetchedDataset>(depot_, depot_->open(Deadline::after(60s)), set);
  }
  // Bit by bit what a host has that has the files.
  void expect_as_there(const Dataset& fetched, const std::string& set = "train") {
    const PackedDataset there(folder_ / "here", set);
    ASSERT_EQ(fetched.size(), there.size());
    std::vector<float> left(64);
    std::vector<float> right(64);
    for (std::uint64_t id = 0; id < there.size(); ++id) {
      const std::uint64_t sample = id * 37 % there.size();
      ASSERT_EQ(fetched.read(sample, left), there.read(sample, right)) << sample;
      ASSERT_EQ(std::memcmp(left.data(), right.data(), 64 * sizeof(float)), 0) << sample;
    }
  }
  std::string told() {
    const MutexLock lock(mutex_);
    return told_;
  }

  TemporaryFolder folder_;
  Mutex mutex_;
  std::string told_ MUSTER_GUARDED_BY(mutex_);
  std::vector<ShardSource> sources_;  // before open()
  std::shared_ptr<Depot> depot_;
};

TEST_F(DepotTest, SamplesAreThoseOfTheHostThatHasThem) {
  host("a");
  open();
  expect_as_there(*dataset());
  expect_as_there(*dataset("test"), "test");
  const std::uint64_t all =
      PackedDataset(folder_ / "here", "train").bytes() + PackedDataset(folder_ / "here", "test").bytes();
  EXPECT_EQ(depot_->fetched_bytes(), all) << "each byte once";
  EXPECT_THAT(told(), HasSubstr("fetching data from a"));
  EXPECT_FALSE(FetchedDataset::exists(depot_->open(Deadline::after(1s)), "validation"));
}

TEST_F(DepotTest, AnAgentThatComesAgainFetchesNothingTwice) {
  const auto a = host("a");
  open();
  expect_as_there(*dataset());
  open();
  expect_as_there(*dataset());
  EXPECT_EQ(depot_->fetched_bytes(), 0U);
}

TEST_F(DepotTest, ACacheThatIsSmallerThanTheDataHoldsItsLimit) {
  host("a");
  const std::uint64_t limit = 64 * 1024;  // of 136 KB
  open(limit);
  expect_as_there(*dataset());
  expect_as_there(*dataset());
  std::uint64_t kept = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache"))
    if (entry.is_regular_file()) kept += entry.file_size();
  EXPECT_LE(kept, limit);
  EXPECT_GT(kept, 0U);
}

TEST_F(DepotTest, WhatIsExpectedIsThereBeforeItIsRead) {
  const auto a = host("a");
  open();
  const auto set = dataset();
  std::vector<std::uint64_t> ids(set->size());
  for (std::uint64_t id = 0; id < ids.size(); ++id)
    ids[id] = id;
  set->expect(ids);
  EXPECT_TRUE(testing::eventually([&] { return depot_->fetched_bytes() == set->bytes(); }, Deadline::after(60s)));
  const int reads = a->reads;
  expect_as_there(*set);
  EXPECT_EQ(a->reads, reads);
}

TEST_F(DepotTest, TheLossOfAHostSendsToTheNextOne) {
  const auto a = host("a");
  const auto b = host("b");
  open(64 * 1024);
  const auto set = dataset();
  a->lost = true;
  expect_as_there(*set);
  a->lost = false;
  b->lost = true;
  expect_as_there(*set);
}

TEST_F(DepotTest, AHostThatComesBackIsAskedAgain) {
  const auto a = host("a");
  open();
  const auto set = dataset();
  a->failures = 2;
  expect_as_there(*set);
  EXPECT_LE(a->failures, 0);
}

TEST_F(DepotTest, WhenNobodyHasItTheErrorSaysWhoWasAsked) {
  const auto a = host("a");
  open();
  depot_->open(Deadline::after(60s));
  a->lost = true;
  const auto error = error_of([&] { depot_->fetch({0, 1}, Deadline::after(100ms)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kIo);
  EXPECT_THAT(error->message(),
              ::testing::AllOf(HasSubstr("test-00000-of-00003.pack"), HasSubstr("a: nobody answers")));
  EXPECT_THAT(error->remedy(), HasSubstr("data.path"));
}

TEST_F(DepotTest, WithoutAnyHostItSaysThatThereIsNone) {
  open();
  const auto error = error_of([&] { depot_->open(Deadline::after(50ms)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error->message(), HasSubstr("no host of this job has the data"));
}

TEST_F(DepotTest, AHostWithOtherDataIsNotAsked) {
  pack_into("other", 2);
  const auto a = host("a");
  const auto b = host("b", "other");
  open();
  const auto set = dataset();
  expect_as_there(*set);
  EXPECT_LE(b->reads, 1) << "once, to hear that it is another";
  EXPECT_THAT(told(), HasSubstr("b has other data"));
}

TEST_F(DepotTest, AReplyThatIsTooShortIsNotBelieved) {
  const auto a = host("a");
  const auto b = host("b");
  a->spoil = [](std::vector<std::byte>& data) {
    if (data.size() > 4096) data.pop_back();
  };
  open();
  expect_as_there(*dataset());
}

TEST_F(DepotTest, WhatIsDamagedInTheCacheIsFetchedAgain) {
  host("a");
  open();
  const auto set = dataset();
  expect_as_there(*set);
  const DepotView view = depot_->open(Deadline::after(1s));
  int damaged = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(view.cache)) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    std::fstream(entry.path(), std::ios::in | std::ios::out | std::ios::binary).seekp(20).write("damage", 6);
    ++damaged;
  }
  EXPECT_GT(damaged, 0);
  expect_as_there(*set);
}

TEST_F(DepotTest, ARecordThatIsDamagedWhereItCameFromIsNamedAsItWouldBeThere) {
  const std::filesystem::path shard = folder_ / "here" / "train-00001-of-00003.pack";
  std::fstream(shard, std::ios::in | std::ios::out | std::ios::binary).seekp(4096 + 5 * 268 + 20).write("damage", 6);
  host("a");
  open();
  const auto set = dataset();
  std::vector<float> features(64);
  const auto error = error_of([&] { set->read(167 + 5, features); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error->what(), HasSubstr("train-00001-of-00003.pack: record 5"));
  EXPECT_FALSE(error_of([&] { set->read(167 + 4, features); })) << "the one before it is well";
}

TEST_F(DepotTest, NoPieceThatThereIsNot) {
  host("a");
  open();
  depot_->open(Deadline::after(60s));
  for (const PieceId& piece : {PieceId{99, 1}, PieceId{0, 1 << 20}, PieceId{~std::size_t{0}, ~std::uint64_t{0}}})
    EXPECT_EQ(error_of([&] { depot_->fetch(piece, Deadline::after(1s)); })->kind(), ErrorKind::kInvalidInput);
  depot_->expect(std::vector<PieceId>{{99, 1}, {0, 1 << 20}});  // no harm
}

TEST_F(DepotTest, AJobOpensWhatItsHostHasNot) {
  host("a");
  open();
  SourceOptions options;
  options.source = "packed";
  options.path = folder_ / "nothing";
  options.remote = depot_;
  const Data data = open_source(options);
  expect_as_there(*data.train);
  EXPECT_EQ(data.test->size(), 60U);
  EXPECT_FALSE(data.validation);
  EXPECT_THAT(data.description, HasSubstr("3 shards of other hosts"));
  options.path = folder_ / "here";
  EXPECT_THAT(open_source(options).description, HasSubstr("shards of " + (folder_ / "here").string()));
}

TEST(ShardFiles, TheFingerprintIsThatOfTheData) {
  TemporaryFolder folder;
  const auto packed = [&](const std::string& name, std::uint64_t seed, std::uint64_t shards) {
    const SyntheticOptions options{.shape = {4}, .classes = 3, .samples = 100, .seed = seed};
    for (const char* set : {"train", "test"})
      pack(std::make_shared<Synthetic>(options), {}, folder / name, set, {.shards = shards});
    return ShardFiles(folder / name).catalog(Deadline::after(1s));
  };
  const ShardCatalog first = packed("a", 1, 2);
  EXPECT_EQ(first, packed("b", 1, 2)) << "a copy elsewhere";
  EXPECT_NE(first.print, packed("c", 2, 2).print);
  EXPECT_NE(first.print, packed("d", 1, 3).print);
  EXPECT_EQ(first.shards.size(), 4U);
  check_catalog(first, "here");
}

TEST(ShardFiles, GivesNothingButShards) {
  TemporaryFolder folder;
  const SyntheticOptions options{.shape = {4}, .classes = 3, .samples = 10, .seed = 1};
  for (const char* set : {"train", "test"})
    pack(std::make_shared<Synthetic>(options), {}, folder.path(), set, {.shards = 1});
  ShardFiles files(folder.path());
  const ShardCatalog catalog = files.catalog(Deadline::after(1s));
  const std::uint64_t size = catalog.shards[0].bytes;
  const Deadline soon = Deadline::after(1s);
  EXPECT_EQ(files.read(catalog.print, 0, size - 1, 1, soon).size(), 1U);
  const auto kind = [&](const std::string& print, std::size_t shard, std::uint64_t offset, std::uint64_t bytes) {
    return error_of([&] { files.read(print, shard, offset, bytes, soon); })
        .value_or(Error(ErrorKind::kInterrupted, "none"))
        .kind();
  };
  EXPECT_EQ(kind("other", 0, 0, 1), ErrorKind::kMismatch);
  EXPECT_EQ(kind(catalog.print, 2, 0, 1), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind(catalog.print, 0, size, 1), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind(catalog.print, 0, 0, size + 1), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind(catalog.print, 0, ~std::uint64_t{0}, 2), ErrorKind::kInvalidInput);
  EXPECT_EQ(kind(catalog.print, 0, 0, kMostShardRead + 1), ErrorKind::kInvalidInput);
}

TEST(ShardFiles, ACatalogThatMakesNoSenseIsRefused) {
  const ShardCatalog good{"0123456789abcdef", {{"a-0.pack", 1}, {"b-0.pack", 2}}};
  check_catalog(good, "there");
  const auto refused = [&](const std::function<void(ShardCatalog&)>& change) {
    ShardCatalog catalog = good;
    change(catalog);
    const auto error = error_of([&] { check_catalog(catalog, "there"); });
    EXPECT_TRUE(error && error->kind() == ErrorKind::kDamaged && error->where() == "there");
  };
  refused([](auto& c) { c.print = "../../etc"; });
  refused([](auto& c) { c.print.clear(); });
  refused([](auto& c) { c.shards.clear(); });
  refused([](auto& c) { c.shards[0].name = "../a.pack"; });
  refused([](auto& c) { c.shards[0].name = "/a.pack"; });
  refused([](auto& c) { c.shards[0].name = "a"; });
  refused([](auto& c) { c.shards[0].name = ".pack"; });
  refused([](auto& c) { c.shards[1].name = c.shards[0].name; });
  refused([](auto& c) { std::swap(c.shards[0], c.shards[1]); });
  refused([](auto& c) { c.shards[0].bytes = ~std::uint64_t{0}; });
  refused([](auto& c) { c.shards.resize(kMostCatalogShards + 1, {"c.pack", 1}); });
}

}  // namespace
}  // namespace muster::data
