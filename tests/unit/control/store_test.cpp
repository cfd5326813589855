// The SQLite store against kills, full disks, flipped bytes and other processes.
#include "muster/control/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "support/ranks.h"
#include "support/sandbox.h"

namespace muster::control {
namespace {

using muster::testing::slurp;
using muster::testing::spill;
using muster::testing::status_of_child;
using muster::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What `call` throws, or nothing.
template <typename Call>
std::optional<Error> error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// SQL run beside the store, by SQLite itself.
void run_sql(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
  sqlite3_close(database);
}

std::vector<std::string> keys_of(const std::vector<Entry>& entries) {
  std::vector<std::string> keys;
  for (const Entry& entry : entries)
    keys.push_back(entry.key);
  return keys;
}

TEST(SqliteStore, KeepsWhatWasPutForTheNextToOpenIt) {
  const TemporaryFolder folder;
  const std::string bytes("\0\xff'\"\n", 5);
  std::uint64_t revision = 0;
  {
    const auto store = make_sqlite_store(folder / "job.db");
    EXPECT_EQ(store->get("a"), std::nullopt);
    store->put("a", "first");
    revision = store->put("a", bytes);
    store->put("empty", "");
  }
  const auto store = make_sqlite_store(folder / "job.db");
  EXPECT_EQ(store->get("a")->value, bytes);
  EXPECT_EQ(store->get("a")->revision, revision);
  EXPECT_EQ(store->get("empty")->value, "");
  EXPECT_THAT(folder.names(), ElementsAre("job.db"));
}

TEST(SqliteStore, RevisionsOnlyGrowAlsoOverRemovalAndReopening) {
  const TemporaryFolder folder;
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const auto store = make_sqlite_store(folder / "job.db");
    for (int j = 0; j < 3; ++j) {
      const std::uint64_t revision = store->put("key", "value");
      EXPECT_GT(revision, last);
      EXPECT_EQ(store->revision(), revision);
      last = revision;
      store->remove("key");
      EXPECT_EQ(store->get("key"), std::nullopt);
    }
  }
}

TEST(SqliteStore, ListsByPrefixInOrder) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db");
  for (const char* key : {"b/2", "a", "b/1", "b", "b/10", "bb", "c"})
    store->put(key, key);
  EXPECT_THAT(keys_of(store->list("b/")), ElementsAre("b/1", "b/10", "b/2"));
  EXPECT_THAT(keys_of(store->list("")), ElementsAre("a", "b", "b/1", "b/10", "b/2", "bb", "c"));
  EXPECT_TRUE(store->list("d").empty());
}

TEST(SqliteStore, ComparesBeforeItPuts) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db");
  const auto first = store->compare_and_put("key", 0, "one");
  ASSERT_TRUE(first);
  EXPECT_EQ(store->compare_and_put("key", 0, "two"), std::nullopt);
  EXPECT_EQ(store->compare_and_put("key", *first + 1, "two"), std::nullopt);
  EXPECT_EQ(store->get("key")->value, "one");
  EXPECT_GT(*store->compare_and_put("key", *first, "two"), *first);
  EXPECT_EQ(store->compare_and_put("key", *first, "three"), std::nullopt);
  EXPECT_EQ(store->get("key")->value, "two");
}

TEST(SqliteStore, TransactionIsAllOrNothing) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db");
  const std::uint64_t guard = store->put("guard", "");
  store->put("old", "");
  EXPECT_EQ(store->commit({.conditions = {{"guard", guard}, {"absent", 7}}, .writes = {{"new", "x"}, {"old", {}}}}),
            std::nullopt);
  EXPECT_THAT(keys_of(store->list("")), ElementsAre("guard", "old"));
  const auto done = store->commit({.conditions = {{"guard", guard}}, .writes = {{"new", "x"}, {"old", {}}}});
  ASSERT_TRUE(done);
  EXPECT_THAT(keys_of(store->list("")), ElementsAre("guard", "new"));
  EXPECT_EQ(store->get("new")->revision, *done);
}

TEST(SqliteStore, IsPrivate) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "job.db").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(SqliteStore, RefusesKeysAndValuesItCannotHold) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db");
  for (const std::string& key : {std::string(""), std::string("/a"), std::string("a//b"), std::string("a/"),
                                 std::string("a b"), std::string("\xc3\xa4"), std::string(201, 'a')})
    EXPECT_EQ(error_of([&] { store->put(key, ""); })->kind(), ErrorKind::kInvalidInput) << key;
  EXPECT_EQ(error_of([&] { store->put("a", std::string((1 << 20) + 1, 'x')); })->kind(), ErrorKind::kInvalidInput);
  EXPECT_EQ(store->revision(), 0u);
}

TEST(SqliteStore, SaysWhenThereIsNone) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "job.db", {.create = false}); })->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "no/job.db"); })->kind(), ErrorKind::kNotFound);
  EXPECT_TRUE(folder.names().empty());
}

TEST(SqliteStore, RefusesWhatIsNotAStore) {
  const TemporaryFolder folder;
  spill(folder / "text", std::string(5000, 'x'));
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "text"); })->kind(), ErrorKind::kDamaged);
  run_sql(folder / "other", "CREATE TABLE mine(x)");
  const auto other = error_of([&] { make_sqlite_store(folder / "other"); });
  EXPECT_EQ(other->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(other->what(), HasSubstr("not a store of Muster"));
}

TEST(SqliteStore, RefusesANewerFormat) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db");
  run_sql(folder / "job.db", "PRAGMA user_version = 2");
  const auto error = error_of([&] { make_sqlite_store(folder / "job.db"); });
  EXPECT_EQ(error->kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(error->what(), HasSubstr("newer Muster"));
}

TEST(SqliteStore, NoticesAlteredValues) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db")->put("key", "a value that is easy to find");
  std::string bytes = slurp(folder / "job.db");
  const std::size_t at = bytes.find("easy");
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  spill(folder / "job.db", bytes);
  const auto store = make_sqlite_store(folder / "job.db");
  const auto error = error_of([&] { store->get("key"); });
  EXPECT_EQ(error->kind(), ErrorKind::kDamaged);
  EXPECT_THAT(error->what(), HasSubstr("\"key\" was altered"));
}

// Any flipped byte is refused, or is in a part of the file that carries nothing: never a wrong value, never a crash.
TEST(SqliteStore, FlippedBytesNeverGiveAWrongValue) {
  const TemporaryFolder folder;
  const std::string value(600, 'v');
  make_sqlite_store(folder / "job.db")->put("key", value);
  const std::string whole = slurp(folder / "job.db");
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 61) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    spill(folder / "job.db", bytes);
    const auto error = error_of([&] {
      const auto store = make_sqlite_store(folder / "job.db");
      if (const auto entry = store->get("key")) {
        EXPECT_EQ(entry->value, value) << "byte " << at;
      }
    });
    refused += error.has_value();
  }
  EXPECT_GT(refused, 5);
}

TEST(SqliteStore, CutFileIsRefused) {
  const TemporaryFolder folder;
  make_sqlite_store(folder / "job.db")->put("key", std::string(20'000, 'v'));
  const std::string whole = slurp(folder / "job.db");
  spill(folder / "job.db", whole.substr(0, whole.size() / 2));
  EXPECT_EQ(error_of([&] { make_sqlite_store(folder / "job.db")->get("key"); })->kind(), ErrorKind::kDamaged);
}

TEST(SqliteStore, FullDiskLeavesTheOldState) {
  const TemporaryFolder folder;
  const std::string path = folder / "job.db";
  make_sqlite_store(path)->put("key", "old");
  const int status = status_of_child([&] {
    testing::limit_file_size(64 * 1024);
    const auto store = make_sqlite_store(path);
    const auto error = error_of([&] { store->put("key", std::string(500'000, 'x')); });
    if (!error || error->kind() != ErrorKind::kResource) return 1;
    if (store->get("key")->value != "old") return 2;
    store->put("key", "new");  // the store goes on once there is room
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(make_sqlite_store(path)->get("key")->value, "new");
}

TEST(SqliteStore, ReadOnlyFileCanBeReadAndSaysSoWhenWritten) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "job.db";
  make_sqlite_store(path)->put("key", "value");
  ::chmod(path.c_str(), 0444);
  ::chmod(folder.path().c_str(), 0755);
  const int status = status_of_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) return 9;  // permissions mean nothing to root
    const auto store = make_sqlite_store(path, {.create = false});
    if (store->get("key")->value != "value") return 1;
    const auto error = error_of([&] { store->put("key", "other"); });
    if (!error || error->kind() != ErrorKind::kIo) return 2;
    return error->message().find("read-only") == std::string::npos ? 3 : 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(SqliteStore, WaitsForAnotherProcessNoLongerThanAllowed) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db", {.timeout = std::chrono::milliseconds(50)});
  store->put("key", "value");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder / "job.db").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(error_of([&] { store->put("key", "new"); })->kind(), ErrorKind::kTimeout);
  EXPECT_EQ(error_of([&] { store->get("key"); })->kind(), ErrorKind::kTimeout);
  ASSERT_EQ(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(other);
  store->put("key", "new");
  EXPECT_EQ(store->get("key")->value, "new");
}

// Counts up in a store and tells the parent through a pipe after each put has returned.
[[noreturn]] void count_up(const std::filesystem::path& path, int pipe) {
  const auto store = make_sqlite_store(path);
  const auto before = store->get("count");
  for (std::uint32_t value = before ? static_cast<std::uint32_t>(std::stoul(before->value)) + 1 : 1;; ++value) {
    store->commit({.writes = {{"count", std::to_string(value)}, {"twin", std::to_string(value)}}});
    if (::write(pipe, &value, sizeof value) != sizeof value) ::_exit(1);
  }
}

TEST(SqliteStoreFaults, KilledWriterLosesNothingItAcknowledged) {
  const TemporaryFolder folder;
  std::uint32_t acknowledged = 0;
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) count_up(folder / "job.db", ends[1]);
    ::close(ends[1]);
    // Killed at another place each time: some writes later, and a moment that falls anywhere inside a write.
    for (int i = 0; i <= round % 4; ++i)
      ASSERT_EQ(::read(ends[0], &acknowledged, sizeof acknowledged), static_cast<ssize_t>(sizeof acknowledged));
    // sleeps: that moment
    std::this_thread::sleep_for(std::chrono::microseconds(397 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (std::uint32_t value = 0; ::read(ends[0], &value, sizeof value) == sizeof value;)
      acknowledged = value;
    ::close(ends[0]);
    const auto store = make_sqlite_store(folder / "job.db");
    const std::uint32_t found = static_cast<std::uint32_t>(std::stoul(store->get("count")->value));
    EXPECT_GE(found, acknowledged);
    EXPECT_LE(found, acknowledged + 1);  // the one it was writing may have made it
    EXPECT_EQ(store->get("twin")->value, store->get("count")->value);
  }
}

TEST(SqliteStoreFaults, TwoProcessesCountTogetherByCompareAndPut) {
  constexpr int kEach = 40;
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "job.db";
  make_sqlite_store(path)->put("count", "0");
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto store = make_sqlite_store(path, {.timeout = std::chrono::seconds(60)});
      for (int done = 0; done < kEach;) {
        const auto entry = store->get("count");
        const std::string next = std::to_string(std::stoi(entry->value) + 1);
        done += store->compare_and_put("count", entry->revision, next).has_value();
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(make_sqlite_store(path)->get("count")->value, std::to_string(2 * kEach));
}

TEST(SqliteStore, ThreadsMayShareOne) {
  const TemporaryFolder folder;
  const auto store = make_sqlite_store(folder / "job.db");
  muster::testing::run_ranks(3, [&](int rank) {
    for (int i = 0; i < 10; ++i)
      store->put("key/" + std::to_string(rank), std::to_string(i));
  });
  EXPECT_EQ(store->list("key/").size(), 3u);
  EXPECT_EQ(store->revision(), 30u);
}

}  // namespace
}  // namespace muster::control
